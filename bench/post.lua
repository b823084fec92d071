-- For wrk: one job in each request. Arguments: token, body.
function init(args)
  wrk.method = "POST"
  wrk.headers["Authorization"] = "Bearer " .. args[1]
  wrk.headers["Content-Type"] = "application/json"
  wrk.body = args[2]
end
