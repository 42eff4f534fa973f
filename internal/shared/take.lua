-- Takes tokens of several token buckets, of all or of none.
--
-- KEYS[i] is a bucket. Its value is when it will be full, in microseconds of this server's clock; a bucket without one is
-- full. ARGV holds three numbers for each: microseconds in which one token flows in, most tokens kept, tokens wanted.
--
-- Returns {0, 0}, or the number of the bucket that takes longest and the microseconds until it has the tokens.
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local denied, wait = 0, 0
local after = {}
for i, key in ipairs(KEYS) do
  local every, burst, tokens = tonumber(ARGV[3*i-2]), tonumber(ARGV[3*i-1]), tonumber(ARGV[3*i])
  local full = after[key] or tonumber(redis.call('GET', key) or '') or now
  full = math.min(math.max(full, now), now + every * burst)
  after[key] = full + every * tokens
  local late = math.ceil(after[key] - now - every * burst)
  if late > 0 and late > wait then
    denied, wait = i, late
  end
end
if denied > 0 then
  return {denied, wait}
end
for key, full in pairs(after) do
  redis.call('SET', key, string.format('%.3f', full), 'PX', math.min(math.ceil((full - now) / 1000) + 1, 1e15))
end
return {0, 0}
