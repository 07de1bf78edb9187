-- heed: for steps that must not be taken twice, nor when nobody waits for them any
-- more. ARGV: [4] the name of the call; [5] server time in ms after which the call
-- is void (it was delayed for so long that its sender has given up), 0 for never;
-- [6] 1 if the call was sent before, without an answer, else 0.
-- A void call is answered with 3, 0, 0, 0 after the head.
local call, void, repeated = ARGV[4], tonumber(ARGV[5]), ARGV[6] == '1'
local VOID = {now, 0, '', 3, 0, 0, 0}
if void > 0 and now > void then
  return VOID
end
