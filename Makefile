# Every target works on a fresh machine with Go; those that need a redis-server
# install it (Debian, Ubuntu, macOS with Homebrew) or say what is missing.

MODULES     := . examples
FUZZTIME    ?= 10s
BENCHTIME   ?= 2s
DURATION    ?= 1m
SCHEDULES   ?= 10000
SEED        ?= 1
KILLS       ?= 3000
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.3.0

# each runs a command in the folder of every module.
define each
	@set -e; for module in $(MODULES); do echo "== $$module: $(1)"; (cd $$module && $(1)); done
endef

.PHONY: help demo test race simulate bounds crash soak mutants lint vulnerabilities fuzz bench cover redis-server

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## processes share a semaphore, one is killed, the others go on (needs only Go)
	@cd examples && go run ./demo

test: redis-server simulate ## run every test of every module, with the race detector, and 10,000 simulations
	$(call each,go test -race -timeout 15m ./...)

race: redis-server ## run the tests several times over
	$(call each,go test -race -count 3 -timeout 30m ./...)

simulate: ## run SCHEDULES simulations, from SEED on
	go test ./internal/simulation -run 'InSeveralProcesses|KnownBugs' -parts -1 -schedules $(SCHEDULES) -seed $(SEED) -timeout 0 -v

bounds: redis-server ## inject each fault, and print the bound that is measured
	@go test ./semaphore ./internal/crashtest -run 'Guarantee|Killed(Holder|Waiter)|Restart|Flush|FailOver|Lost|Paused|ParityC_Clocks|PoolSmaller' -count 1 -v \
		| grep -E '^ *---|measured|^ok|FAIL'

crash: redis-server ## kill KILLS processes at random moments
	go test ./internal/crashtest -run Killed -kills $(KILLS) -timeout 0 -v

soak: redis-server ## run everything at once under all faults, for DURATION
	go run ./internal/soak -duration $(DURATION)

mutants: redis-server ## change one line of the Lua after the other: do the tests notice? (an hour)
	go run ./internal/mutation/mutants

lint: vulnerabilities ## check format, vet, staticcheck, known vulnerabilities, and that go.mod is tidy
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these files"; exit 1; }
	$(call each,go vet ./...)
	$(call each,go run $(STATICCHECK) ./...)
	$(call each,go mod tidy -diff)

vulnerabilities: # of what is called; skipped where the database can't be reached
	@set -e; for module in $(MODULES); do echo "== $$module: govulncheck"; \
		out=$$(cd $$module && go run $(GOVULNCHECK) ./... 2>&1) && status=0 || status=$$?; \
		case "$$out" in \
			*"fetching vulnerabilities"*) echo "not checked: no vulnerability database here"; break;; \
			*) echo "$$out"; [ $$status -eq 0 ] || exit $$status;; \
		esac; \
	done

fuzz: ## run each fuzz target for FUZZTIME
	@set -e; grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$file); do \
			echo "== $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) ./$$(dirname $$file); \
		done; \
	done

bench: redis-server ## measure, each rival beside its floor in one run
	go test -run '^$$' -bench . -benchtime $(BENCHTIME) -count 3 ./semaphore/

cover: redis-server ## write coverage.html, of all packages of the root module together
	go test -coverpkg ./... -coverprofile coverage.out ./...
	go tool cover -html coverage.out -o coverage.html
	go tool cover -func coverage.out | tail -n 1

redis-server:
	@internal/redistest/install.sh
