-- Keeps the present generation of some data, and who changes it.
--
-- KEYS[1] is a hash: "generation", and for every writer "writer:" and its name with the time when its lease ends, in
-- milliseconds of this server's clock. ARGV: what to do (look, begin, end), a name that was never used, for the next
-- generation, the writer, and the lease in milliseconds.
--
-- Returns the generation, and how many writers there are. Data of which nothing is known has an unknown writer for one
-- lease.
local key, todo, fresh, writer, lease = KEYS[1], ARGV[1], ARGV[2], 'writer:' .. ARGV[3], tonumber(ARGV[4])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function note(name)
  redis.call('HSET', key, name, string.format('%.0f', now + lease))
end

local generation, changed, writers = false, false, {}
local fields = redis.call('HGETALL', key)
for i = 1, #fields, 2 do
  local name, value = fields[i], fields[i+1]
  if name == 'generation' then
    generation = value
  elseif tonumber(value) <= now then
    redis.call('HDEL', key, name)
    changed = true
  else
    writers[name] = true
  end
end
if not generation then
  note('writer:')
  writers['writer:'] = true
  changed = true
end
if todo == 'begin' then
  note(writer)
  writers[writer] = true
  changed = true
elseif todo == 'end' then
  redis.call('HDEL', key, writer)
  writers[writer] = nil
  changed = true
end
if changed then
  generation = fresh
  redis.call('HSET', key, 'generation', generation)
end
local n = 0
for _ in pairs(writers) do
  n = n + 1
end
return {generation, n}
