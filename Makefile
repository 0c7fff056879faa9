# Thin front for people; meson does the work. `make help` lists the targets.
.DEFAULT_GOAL := all
MAKEFLAGS += --no-print-directory

all: ## compile into build/
	@tools/install-deps build
	@tools/build release

run: ## set everything up and start the server (same as ./run)
	@./run

test: ## every test (same as ./test)
	@./test

asan: ## compile with sanitizers into build-asan/
	@tools/install-deps build
	@tools/build asan

bench: all ## every figure beside its goal and its peers, one table after the other; ten minutes of a quiet machine
	@tools/install-deps image bench test
	@tools/build-images
	@for part in run sessions checkpoints http mcp files layers artifacts; do echo "== bench/$$part"; bench/$$part || exit; done

bench-cold: all ## cold start beside bubblewrap, crun and runc (ARGS="--rounds 200 --json")
	@tools/install-deps image bench
	@tools/build-images
	@bench/run $(ARGS)

bench-sessions: all ## what live sessions cost, beside their goals (ARGS="--crowd 5000")
	@tools/install-deps image bench
	@tools/build-images python
	@bench/sessions $(ARGS)

soak: all ## a server under a mixed load for a while, and what it keeps (ARGS="60 --crashes")
	@tools/install-deps image test
	@tools/build-images
	@tools/soak $(ARGS)

chaos: all ## hostile programs in 200 sandboxes at a time, and whether an honest client notices (ARGS="120 --rounds 2")
	@tools/install-deps image test
	@tools/build-images
	@tools/chaos $(ARGS)

bench-http: all ## what the server costs over HTTP, beside their goals (ARGS="--quick")
	@tools/install-deps image bench
	@tools/build-images python
	@bench/http $(ARGS)

bench-mcp: all ## what a call of MCP costs, beside the same over REST (ARGS="--rounds 100")
	@tools/install-deps image bench
	@tools/build-images python
	@bench/mcp $(ARGS)

bench-files: all ## one GiB into a session and out of it, beside nginx (ARGS="--size 256")
	@tools/install-deps image bench
	@tools/build-images bash
	@bench/files $(ARGS)

conformance: all ## MCP's official conformance suite against our protocol core, both sets
	@tools/conformance $(ARGS)

bundle: all ## one file that adds Cove to an assistant (ARGS="--repository https://github.com/OWNER/NAME" for the registry)
	@tools/make-bundle $(ARGS)

lint: all ## every check that reads the code without running it
	@tools/install-deps lint
	@tools/lint

format: ## write the code as clang-format wants it
	@tools/install-deps format
	@find src guest tests fuzz \( -name '*.c' -o -name '*.h' \) 2>/dev/null | xargs clang-format -i

coverage: ## which lines the unit and integration tests reach
	@tools/install-deps build image test coverage
	@tools/coverage

fuzz: ## compile the fuzz targets into build-fuzz/
	@tools/install-deps build fuzz
	@tools/build fuzz

fresh: ## run ./run and ./test on a bare Debian made for it (root)
	@tools/install-deps fresh
	@tools/fresh-machine

install: all ## install into the system (DESTDIR works)
	@meson install -C build --no-rebuild

clean: ## remove every build directory
	@rm -rf build build-*

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: all run test asan bench bench-cold bench-files bench-sessions bench-http bench-mcp soak chaos conformance lint format coverage fuzz fresh install clean help
