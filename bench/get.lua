-- For wrk: the paths of a file, one after the other. Arguments: token, file.
local requests, position = {}, 0

function init(args)
  wrk.headers["Authorization"] = "Bearer " .. args[1]
  for path in io.lines(args[2]) do
    requests[#requests + 1] = wrk.format("GET", path)
  end
end

function request()
  position = position % #requests + 1
  return requests[position]
end
