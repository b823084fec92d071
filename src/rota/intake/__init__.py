"""From what is asked for to what is committed: the way in, whoever asks."""
