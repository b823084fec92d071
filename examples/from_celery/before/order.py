"""python -m before.order: needs a worker."""

from before.shop import place_order, resize_all

if __name__ == "__main__":
    place_order("chair", "ada")
    print(resize_all([100, 200, 300]))
