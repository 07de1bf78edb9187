// Package histories tests redsem as its users meet it: real clients, a real
// redis-server, random faults between them. What each call asked and was answered, and
// when, is a history; a checker of linearizability (porcupine) looks for an order of
// the calls that a counting semaphore with leases allows. Where there is none, somebody
// was told what is not so.
//
// The model, and why it demands what it does, is in model_test.go; how calls whose
// outcome is not known, and leases that end, are told to the checker is in
// history_test.go. First come, first served is not looked at: an order of calls does not
// say who came first to the server. No data is lost in these histories: what follows
// from that is a documented limit.
package histories
