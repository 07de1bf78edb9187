# Every target works on a fresh machine with Go; those that need a redis-server
# install it (Debian, Ubuntu, macOS with Homebrew) or say what is missing.

MODULES     := . examples
FUZZTIME    ?= 10s
BENCHTIME   ?= 2s
DURATION    ?= 1m
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# each runs a command in the folder of every module.
define each
	@set -e; for module in $(MODULES); do echo "== $$module: $(1)"; (cd $$module && $(1)); done
endef

.PHONY: help demo test race lint fuzz bench soak cover redis-server

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## processes share a semaphore, one is killed, the others go on (needs only Go)
	@cd examples && go run ./demo

test: redis-server ## run every test of every module, with the race detector
	$(call each,go test -race -timeout 15m ./...)

race: redis-server ## run the tests several times over
	$(call each,go test -race -count 3 -timeout 30m ./...)

lint: ## check format, vet, staticcheck, and that go.mod is tidy
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these files"; exit 1; }
	$(call each,go vet ./...)
	$(call each,go run $(STATICCHECK) ./...)
	$(call each,go mod tidy -diff)

fuzz: ## run each fuzz target for FUZZTIME
	@set -e; grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$file); do \
			echo "== $$target"; go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) ./$$(dirname $$file); \
		done; \
	done

bench: redis-server ## measure, each rival beside its floor in one run
	go test -run '^$$' -bench . -benchtime $(BENCHTIME) -count 3 ./semaphore/

soak: redis-server ## run everything at once under all faults for DURATION
	go run ./internal/soak -duration $(DURATION)

cover: redis-server ## write coverage.html, of all packages of the root module together
	go test -coverpkg ./... -coverprofile coverage.out ./...
	go tool cover -html coverage.out -o coverage.html
	go tool cover -func coverage.out | tail -n 1

redis-server:
	@internal/redistest/install.sh
