-- kind: what is special to the format of a job queue.
local FORMAT = '1-queue'                  -- of K:version
local COUNT = 'ZCARD'                     -- counts the jobs that are ready
local MENDED = false                      -- a lease without a record holds no job
local MOST = 2 ^ 40                       -- greatest number of jobs
local JOBS, EXPIRIES = KEYS[10], KEYS[11]
