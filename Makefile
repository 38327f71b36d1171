# The two commands of the README are `make demo` and `make test`; both install
# what is missing (Debian packages as root, else they print the line to run).
SHELL   := /bin/bash
GO      ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X headroom/cli.version=$(VERSION)
export CGO_ENABLED := 0

.PHONY: build demo test test-real test-long bench lint docs install clean

build: bin/headroom

.PHONY: bin/headroom
bin/headroom:
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/headroom ./cmd/headroom

demo: build
	@bin/headroom demo

test:
	@scripts/need test
	$(GO) vet ./...
	$(GO) test -count=1 -timeout 20m ./...

# Root only: changes this machine's own disk queue and sysctls and puts them back.
test-real: build
	@scripts/need test
	$(GO) test -count=1 -timeout 20m -tags real -v ./test/real/...

# Hours, not minutes: every PostgreSQL major, all kill points many times, fuzzing.
test-long: build
	@scripts/need test
	$(GO) test -count=1 -timeout 60m ./pglocal -args -pglocal.all
	scripts/fuzz 60s

bench: build
	@scripts/need test
	scripts/bench

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt wants:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

docs:
	$(GO) run ./docs

install: build
	install -m 0755 bin/headroom /usr/local/bin/headroom

clean:
	rm -rf bin
