-- kind: what is special to the format of a job queue.
local FORMAT = '1-queue'                  -- of K:version
local COUNT = 'ZCARD'                     -- counts the jobs that are ready
local MOST = 2 ^ 40                       -- greatest number of jobs
local JOBS, EXPIRIES = KEYS[9], KEYS[10]
