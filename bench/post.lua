-- For wrk: one job in each request. Arguments: token, body, and the beginning of idempotency keys if each is to have one.
local keys, count

function init(args)
  wrk.method = "POST"
  wrk.headers["Authorization"] = "Bearer " .. args[1]
  wrk.headers["Content-Type"] = "application/json"
  wrk.body = args[2]
  keys, count = args[3], 0
  if keys then
    request = function()
      count = count + 1
      wrk.headers["Idempotency-Key"] = keys .. count
      return wrk.format()
    end
  end
end
