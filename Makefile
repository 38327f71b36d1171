# The two commands of the README are `make demo` and `make test`; both install
# what is missing (Debian packages as root, else they print the line to run).
SHELL   := /bin/bash
GO      ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X headroom/cli.version=$(VERSION)
export CGO_ENABLED := 0

.PHONY: build demo run test test-real test-long test-majors bench lint docs man install clean

build: bin/headroom

.PHONY: bin/headroom
bin/headroom:
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/headroom ./cmd/headroom

demo: build
	@bin/headroom demo

# Watches this machine on http://127.0.0.1:8420 until Ctrl-C; see README.
run: build
	@bin/headroom up

test:
	@scripts/need test
	$(GO) vet ./...
	$(GO) test -count=1 -timeout 20m ./...

# Root only: changes this machine's own disk queue and one sysctl for seconds and
# puts them back, then boots emulated Debian machines: some 20 minutes on 2 idle
# cores, the first time some more, as their image is made.
test-real: build
	@scripts/need test-real
	$(GO) test -count=1 -timeout 150m -tags real -v ./test/real/...

# Hours, not minutes: what talks to servers on every PostgreSQL major, then
# fuzzing. One: make test-majors MAJORS=13
MAJORS  := 13 14 15 16 17 18
SERVERS := ./pglocal/... ./probe/... ./change/... ./trial/... ./lab/... ./engine/... ./store/... ./topic/... ./agent/... ./watch/... ./test/script/...
test-long: test-majors
	scripts/fuzz 60s

test-majors: build
	@scripts/need test
	@failed=; for major in $(MAJORS); do echo "== PostgreSQL $$major"; \
	  HEADROOM_MAJOR=$$major $(GO) test -count=1 -timeout 40m $(SERVERS) || failed="$$failed $$major"; \
	done; [ -z "$$failed" ] || { echo "failed on PostgreSQL$$failed"; exit 1; }

bench: build
	@scripts/need test
	scripts/bench

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt wants:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

docs:
	$(GO) run ./docs

# A manual page for each verb; they are made, not kept in git.
man:
	@rm -rf bin/man1
	$(GO) run -ldflags '$(LDFLAGS)' ./docs -man bin/man1

install: build man
	install -m 0755 bin/headroom /usr/local/bin/headroom
	install -d /usr/local/share/man/man1
	install -m 0644 bin/man1/*.1 /usr/local/share/man/man1/
	@if [ -d /etc/systemd/system ]; then install -m 0644 packaging/headroom.service /etc/systemd/system/headroom.service; fi

clean:
	rm -rf bin
