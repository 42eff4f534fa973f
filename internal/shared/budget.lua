-- Spends from several budgets, from all or from none, or takes back what was not used.
--
-- KEYS[i] is a hash: what was spent, by the number of its slot. ARGV[1] is what to do.
--
-- "reserve": ARGV holds five numbers more for each key: microseconds of a slot, slots of the window, the most that may be
-- spent in it, what is needed and what is wanted. Returns {0, now, granted...}, or the number of the claim that takes
-- longest and the microseconds until it can be met. Times are microseconds of this server's clock.
--
-- "return": ARGV holds two for each key: the slot and what was not used of it. Returns {0}.
local todo = ARGV[1]
if todo == 'return' then
  for i, key in ipairs(KEYS) do
    local slot, amount = ARGV[2*i], tonumber(ARGV[2*i+1])
    local spent = tonumber(redis.call('HGET', key, slot) or '')
    if spent then
      redis.call('HSET', key, slot, string.format('%.0f', math.max(0, spent - amount)))
    end
  end
  return {0}
end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local denied, wait, granted = 0, 0, {0, now}
for i, key in ipairs(KEYS) do
  local width, slots, most = tonumber(ARGV[5*i-3]), tonumber(ARGV[5*i-2]), tonumber(ARGV[5*i-1])
  local need, want = tonumber(ARGV[5*i]), tonumber(ARGV[5*i+1])
  local oldest, spent, used = math.floor(now / width) - slots, {}, 0
  local fields = redis.call('HGETALL', key)
  for j = 1, #fields, 2 do
    local slot, amount = tonumber(fields[j]), tonumber(fields[j+1])
    if slot < oldest then
      redis.call('HDEL', key, fields[j])
    else
      spent[#spent+1] = {slot, amount}
      used = used + amount
    end
  end
  local left = most - used
  if left < need then
    table.sort(spent, function(a, b) return a[1] < b[1] end)
    local free, late = left, width * slots
    for _, s in ipairs(spent) do
      free = free + s[2]
      if free >= need then
        late = (s[1] + slots + 1) * width - now
        break
      end
    end
    if denied == 0 or late > wait then
      denied, wait = i, late
    end
  end
  granted[i+2] = math.min(want, left)
end
if denied > 0 then
  return {denied, math.ceil(wait)}
end
for i, key in ipairs(KEYS) do
  if granted[i+2] > 0 then
    local width, slots = tonumber(ARGV[5*i-3]), tonumber(ARGV[5*i-2])
    redis.call('HINCRBY', key, string.format('%.0f', math.floor(now / width)), string.format('%.0f', granted[i+2]))
    redis.call('PEXPIRE', key, math.ceil(width * (slots + 1) / 1000) + 1)
  end
end
return granted
