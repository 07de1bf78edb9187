-- kind: what is special to the format of a semaphore.
local FORMAT = '1'   -- of K:version
local COUNT = 'LLEN' -- counts the free permits
local MENDED = true    -- a lease without a record still holds
local MOST = 1000000 -- greatest capacity, and so the most that a token can hold
