package semaphore_test

const roleVariable = "REDSEM_TEST_ROLE"

func playRole(role string) int { return 2 }
