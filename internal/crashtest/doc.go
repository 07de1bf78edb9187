// Package crashtest kills processes that use redsem, thousands of times and at random
// moments, and pauses them for longer than their leases. The processes, in worker/,
// write what they do into files of their own; the tests check these records, and what
// Redis says.
package crashtest
