# Every target is described by the text after ##; `make help` prints them.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# One set of flags for whatever is compiled here, make assets included: a package that
# is compiled with other flags, or with cgo, is compiled again, with Kubernetes'
# libraries below it. So there is no -trimpath (make image and the Dockerfile have it, as an
# image may not depend on where it was built), -ldflags are for the linker alone, and only
# the race detector has flags of its own. Without what debuggers want, compiling and linking take a tenth less.
export CGO_ENABLED ?= 0
export GOFLAGS := $(strip $(shell go env GOFLAGS) -gcflags=all=-dwarf=false)
# Tests may start control planes, registries and other programs, but for those of make test and make race. What is built for
# users has no tag.
TAGS = -tags=integration
test race: TAGS =
# Compilers, linters and the tests that run alone are over before they have used much memory: collecting less saves a seventh of the
# processors' time, and what compiles alone uses a twentieth less still if it collects next to nothing.
rollout race alerts packaging browser lint: export GOGC = 400
test assets rollout-assets guards compiled bin/golangci-lint bin/deadcode bin/helm: export GOGC = 1000
FUZZTIME ?= 30s

.PHONY: help build image release packages assets rollout-assets demo demo-rollout test guards compiled integration stories race attacks upgrade emergency truth rollout rollout-full campaign mutations alerts packaging browser manual lint bench bench-sync bench-release bench-presence fuzz clean

help: ## print this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# FIPS=1 links the version of Go's cryptographic module that is certified, and turns FIPS 140-3 mode on.
# All that depends on it, which is everything, is compiled apart.
GOFIPS = $(if $(FIPS),GOFIPS140=certified)

build: ## build bin/mirrorset-guard, static (FIPS=1: with Go's certified FIPS 140-3 module)
	$(GOFIPS) go build -ldflags "-s -w -X main.version=$(VERSION)" -o bin/mirrorset-guard ./cmd/mirrorset-guard

# PLATFORMS=linux/amd64 builds one of the platforms; CA_BUNDLE=FILE takes other CAs than this machine's.
# Credentials for the registry are those of podman login or docker login.
IMAGE_FLAGS = $(if $(PLATFORMS),-platforms "$(PLATFORMS)") $(if $(CA_BUNDLE),-ca-bundle "$(abspath $(CA_BUNDLE))") $(if $(PUSH),-push "$(PUSH)") $(if $(KEY),-key "$(abspath $(KEY))") $(if $(MAINTAINER),-maintainer "$(MAINTAINER)")

image: ## build the image for all platforms without an engine, as dist/image, and print its digest (PUSH=REGISTRY/NAME:TAG, signed with KEY=FILE)
	@cd tools && $(GOFIPS) go run ./image -version "$(VERSION)" $(IMAGE_FLAGS)

release: ## write dist/release: archives, checksums, SBOMs, the image, install.yaml, chart, OLM bundle and catalog, and what copies the image to a mirror (VERSION=v0.1.0, and PUSH as above or IMAGE=REGISTRY/NAME)
	@assets=$$(test/controlplane/assets) && cd tools && $(GOFIPS) go run ./image -release -kubectl "$$assets/kubectl" -version "$(VERSION)" $(if $(IMAGE),-image "$(IMAGE)") $(IMAGE_FLAGS)

packages: ## write dist/packages: the Helm chart, the OLM bundle and its catalog for an image that was pushed (IMAGE=REGISTRY/NAME@DIGEST VERSION=v0.1.0; PUSH and KEY as above)
	@assets=$$(test/controlplane/assets) && cd tools && go run ./image -packages -kubectl "$$assets/kubectl" -version "$(VERSION)" -image "$(IMAGE)" $(IMAGE_FLAGS)

assets: ## put kube-apiserver, etcd, kubectl and a registry into bin/k8s (10 minutes the first time)
	@test/controlplane/assets >/dev/null

rollout-assets: ## put the controllers of MCO and Kubernetes into bin/rollout (8 minutes more the first time)
	@test/rollout/assets >/dev/null

demo: build assets ## tell the story on a real API server with real registries (KEEP=1 leaves it running; FIPS=1 with what FIPS 140-3 approves, and nothing else)
	@go run ./test/demo $(if $(KEEP),-keep) $(if $(FIPS),-fips)

demo-rollout: assets rollout-assets ## let a rollout stall at the routers, end it as the guard says, and see the guard refuse the change (two minutes)
	@cd test/rollout && DEMO=1 go test $(TAGS) -count=1 -timeout 20m -run '^TestDemo$$' -v . | grep -vE '^(=== |--- PASS|PASS$$|ok )'

# Without what debuggers want, linking takes half as long. Vetting is for make lint: here, it would go through all
# libraries as well, once for each way in which they are compiled.
LINK = -ldflags='-s -w'
TEST = go test $(TAGS) -vet=off $(LINK) -timeout 40m

# Whatever these would show needs what make test does without; each takes seconds to link.
STAGED = admission|attack|audit|demo|disconnected|disruption|emergency|gitops|image|load|registries|rights|standing|truth

# Tests of these wait for what does not answer, so that others run meanwhile, or take longest.
FIRST = ./inventory/registry ./webhook ./cmd/mirrorset-guard/sync ./test/scenarios
test: ## run the tests that need nothing but Go (NO_SKIP=1: one that is skipped for want of a program fails)
	@packages=$$(go list ./... | grep -vE '/test/($(STAGED))$$'); $(TEST) -p 4 $(FIRST) $$packages

# The guard as a program, for the targets below: plain, and with the race detector, which needs cgo. A process with
# that waits at its end for reports that are still being written, by default a whole second.
RACE = CGO_ENABLED=1 GORACE=atexit_sleep_ms=50
GUARDS = GUARD=$(CURDIR)/bin/test/guard GUARD_RACE=$(CURDIR)/bin/test/guard-race
guards:
	@go build $(LINK) -o bin/test/guard ./cmd/mirrorset-guard
	@CGO_ENABLED=1 go build -race $(LINK) -o bin/test/guard-race ./cmd/mirrorset-guard

# These fail on a machine that is short of time as a cluster would.
ATTACKS = ./test/attack ./test/disruption ./test/load
# Packages with tests that start what is not theirs, but for what has a target of its own; the longest first, so that none of these is
# the last. To what judges releases, a registry in its own process is as good as one: commands ask the others of releases, too.
LONG = ./test/scenarios ./test/truth ./test/image ./cmd/mirrorset-guard/inspect ./inventory/cluster
NEEDY = $$(go list $(TAGS) -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | grep -E 'mirrorset-guard/test/(skip|cluster|registries|clitest)[] ]' | cut -d' ' -f1 | grep -vxF "$$(go list $(LONG) $(ATTACKS) ./test/emergency ./review/readiness/judge)")
# What needs none of it, and takes seconds: make test has shown it. make lint sees that each name is that of one test.
SHOWN = Scenarios LessKnownInStories RemedyOfObjects SurveyOfALargeCluster HostileMemory Oddities ForeseenIsOnlyForCommands Many
SPACE = $(subst ,, )
tests = '^Test($(subst $(SPACE),|,$(1)))$$'
# API servers take most of the processors' time, and less if they seldom collect garbage, as do compilers; tests and guards collect as Go does by default.
POOL = GOGC=400 go run ./test/cluster/pool

integration: assets guards ## run the tests that need a control plane, registries and other programs (skopeo, bash, python3)
	@$(GUARDS) $(POOL) $(TEST) -exec 'env -u GOGC' -p 2 -skip $(call tests,$(SHOWN)) $(LONG) $(NEEDY)

stories: assets guards ## tell all stories to a real API server
	@$(GUARDS) ALL_STORIES=1 $(POOL) $(TEST) -exec 'env -u GOGC' -count=1 -run TestLive ./test/scenarios

# What shares memory between goroutines: packages with files, tests included, that start some or lock. Who computes alone is
# slowed down by the race detector, and has nothing for it, as random worlds have nothing that single ones have not; each test
# program takes seconds to link. Copies race at a registry that takes several blobs at a time.
RACY = $$(grep -rlE --include='*.go' '^[[:space:]]*go (func|[a-z])|\.Go\(|"(sync|sync/atomic|testing/synctest)"' cmd/mirrorset-guard/serve cmd/mirrorset-guard/sync inventory review webhook certs internal | xargs -n1 dirname | sort -u | grep -vx inventory/copying | sed 's|^|./|')
# Of these, what computes alone, or counts memory or requests.
ALONE = CommandsAgree DockerfileBound EnormousMirrorSets HostileMemory HugeReviews IndexEqualsBruteForce IndexForgetsWhatWas Memory NoWriteBreaks ReadBomb ReadSum RequestsOfPeers SurveyOfALargeCluster TimeToDecide TooManyManifests
# The race detector crashes when two goroutines of a bubble receive at once from timers that are due (golang/go#78156), as they cannot on
# one processor. Races show there, too: what counts is that nothing orders two accesses, not that they are made at one time.
BUBBLES = $$(grep -l '"testing/synctest"' $$(printf '%s/*_test.go ' $(RACY)) 2>/dev/null | xargs -n1 dirname | sort -u)
race: assets ## run the tests of packages that start goroutines, with the race detector (needs gcc)
	@$(RACE) $(TEST) -race -p 4 -cpu 1 -skip $(call tests,$(ALONE)) $(BUBBLES)
	@$(RACE) $(TEST) -race -p 4 -skip $(call tests,$(ALONE)) $$(printf '%s\n' $(RACY) | grep -vxF "$(BUBBLES)")
	@$(RACE) $(TEST) -tags=integration -race -skip $(call tests,$(ALONE)) ./inventory/copying
	@$(RACE) $(TEST) -race -run TestImagesDoNotChange ./policy

# What each target would compile for itself, where others are waiting meanwhile.
compiled: bin/helm
	@$(RACE) go list -race -export -test -f '' $(RACY) >/dev/null
	@$(RACE) go list $(TAGS) -race -export -test -f '' ./inventory/copying >/dev/null
	@cd test/packaging && go list $(TAGS) -export -test -f '' ./... >/dev/null
	@cd test/rollout && go list $(TAGS) -export -test -f '' ./... >/dev/null

attacks: assets guards ## attack two guards from inside a cluster, restart and drain them under load (4 minutes)
	@$(GUARDS) $(TEST) -p 2 $(ATTACKS)

emergency: assets guards bin/helm ## carry out every command of docs/emergency.md, while the guard is dead
	@$(GUARDS) HELM="$(CURDIR)/bin/helm" $(TEST) -count=1 ./test/emergency

bin/helm: test/packaging/go.mod test/packaging/go.sum
	@cd test/packaging && go build -o ../../$@ helm.sh/helm/v3/cmd/helm

# PREVIOUS is a revision, which is built apart, or a program.
upgrade: assets ## roll from an earlier version to this one and back, under 50 changes a second (PREVIOUS=REVISION or program; without it, two builds of this tree)
	@work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; previous="$(PREVIOUS)"; \
	if [[ -n "$$previous" && ! -x "$$previous" ]]; then \
	  commit=$$(git rev-parse --verify --quiet "$$previous^{commit}") || { echo "PREVIOUS: $$previous is neither a revision nor a program" >&2; exit 2; }; \
	  git archive "$$commit" | tar -x -C "$$work"; \
	  (cd "$$work" && go build -ldflags "-w -X main.version=$$(git -C "$(CURDIR)" describe --tags --always "$$commit")" -o previous ./cmd/mirrorset-guard); \
	  previous="$$work/previous"; \
	fi; \
	PREVIOUS_GUARD="$$previous" go test $(TAGS) $(LINK) -count=1 -v -timeout 20m -run '^TestUpgrade$$' ./test/disruption | grep -vE '^(=== |PASS$$)'

truth: assets ## compare verdicts with pulls by real runtimes, 5000 of them (TRUTH_SCENARIOS says another number) and as many signatures
	@CAMPAIGN=1 go test $(TAGS) -count=1 -v -timeout 120m ./test/truth | grep -Ev '^ *(=== |--- PASS)'

# Stages mostly wait: six at once take little longer than one on two cores. The guard as it is
# deployed has a package of its own, and is under load. Here the guards are those without the race detector, which take a
# fraction of the processors.
rollout: assets guards rollout-assets ## compare forecasts with MCO's own code and with its controllers, on a sample of stages; drain the guard under load
	@cd test/rollout && $(GUARDS) GUARD_RACE=$(CURDIR)/bin/test/guard $(TEST) -count=1 -p 1 -parallel 6 ./...

# With the race detector, which compiles all that it needs once more.
rollout-full: assets guards rollout-assets ## the same on all stages, one of them with 30 nodes and 300 pods, with ROLLOUT_PAIRS (100000) and ROLLOUT_SETS (3000) (half an hour)
	@cd test/rollout && $(GUARDS) ROLLOUT_FULL=1 ROLLOUT_PAIRS=$${ROLLOUT_PAIRS:-100000} ROLLOUT_SETS=$${ROLLOUT_SETS:-3000} CGO_ENABLED=1 $(TEST) -timeout 80m -race -count=1 -p 1 -parallel 4 ./...

# What test/campaign makes longer. No race detector: memory and times are what is measured. BEFORE names the program
# of an earlier version, to compare how long changes take.
CAMPAIGNS = $$(go list $(TAGS) -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | grep -E 'mirrorset-guard/test/campaign[] ]' | cut -d' ' -f1 | grep -v test/truth)
campaign: assets guards ## try random worlds, attack two guards from inside a cluster and take a release apart, as often as it takes to find rare faults (an hour; BEFORE=program compares times)
	@$(GUARDS) CAMPAIGN=1 IMAGE_PLATFORMS=linux/amd64,linux/arm64,linux/ppc64le,linux/s390x go test $(TAGS) $(LINK) -count=1 -v -p 1 -timeout 120m $(CAMPAIGNS) ./test/image | grep -E '^ *(--- FAIL|FAIL|ok|panic: |[a-z_]+_test.go:)'

mutations: ## take the defences against attacks away, one at a time, and see that a test notices (some minutes; FAULTS=40 SEED=1 makes so many at random in the rules and what asks registries, an hour)
	@cd tools && go run ./mutations $(if $(FAULTS),-random $(FAULTS) -seed $(or $(SEED),1) policy inventory/registry)

# No race detector: there is nothing of the guard's in it, and Prometheus takes long to compile.
alerts: ## test alerts, dashboards and their metrics with Prometheus' own engine (two minutes the first time)
	@cd test/alerts && $(TEST) ./...

# Likewise, and Helm's and OLM's libraries.
packaging: assets ## test the Helm chart, the OLM bundle and the kustomize overlays with their own tools (two minutes the first time)
	@cd test/packaging && $(TEST) ./...

browser: ## open the pages of all stories in Chromium (two minutes; needs chromium and npm)
	@cd test/browser && npm ci --silent --no-audit --no-fund --ignore-scripts
	@cd test/browser && $(TEST) -count=1 .

# Pages are outside of the module that tests them, where go would not notice that they have changed.
manual: ## build the manual as dist/manual, searchable without a network, and test it (some seconds)
	@cd tools/site && go run . && $(TEST) -count=1 ./...

lint: bin/golangci-lint bin/deadcode ## gofumpt and the linters of .golangci.yml; nothing built is tracked, no function is dead, no mutation is stale
	@tools/tracked
	@files=$$(go list $(TAGS) -f '{{$$p := .}}{{range .TestGoFiles}}{{$$p.Dir}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$$p.Dir}}/{{.}} {{end}}' ./...); for name in $(SHOWN) $(ALONE); do \
	  [[ $$(grep -h "^func Test$$name(" $$files | wc -l) == 1 ]] || { echo "Makefile: there is not one Test$$name" >&2; exit 1; }; done
	@cd tools && go run ./mutations -n
	@{ printf '%s ./...\n' . test/rollout test/alerts test/packaging test/browser test/peers tools/site; echo 'tools ./image/... ./internal/...'; } | \
	  xargs -P 2 -L 1 bash -c 'cd "$$0" && "$(CURDIR)/bin/golangci-lint" run --allow-parallel-runners "$$@"'
	@tools/dead

bin/golangci-lint: tools/go.mod tools/go.sum
	@echo "building golangci-lint (some minutes the first time)"
	@cd tools && go build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/deadcode: tools/go.mod tools/go.sum
	@cd tools && go build -o ../$@ golang.org/x/tools/cmd/deadcode

bench: ## run the benchmarks
	go test $(TAGS) -run '^$$' -bench . -benchmem -timeout 60m ./...

bench-sync: assets ## compare sync with skopeo, regclient and oras-go, eight at once, and with the bytes alone (two minutes)
	cd test/peers && go build -o ../../bin/peers .
	go test $(TAGS) -run '^$$' -bench Peers -benchtime 3x ./inventory/copying

bench-release: assets ## compare the command release with its bare requests (half a minute)
	go test $(TAGS) -run '^$$' -bench Release -benchtime 5x ./cmd/mirrorset-guard/inspect

bench-presence: ## compare who asks registries (10 minutes; BENCH=2000-images for less)
	go test $(TAGS) -run '^$$' -bench 'Presence/^$(BENCH)' -timeout 40m ./inventory/registry

# Minimizing what is merely new takes a minute each by default: of inputs whose coverage varies, in vain.
fuzz: ## fuzz each fuzz test for FUZZTIME (30s)
	@for pkg in $$(go list ./...); do \
	  for name in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$name"; go test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 200x $$pkg; \
	  done; \
	done

clean: ## remove what was built, but for the control plane
	rm -rf bin/mirrorset-guard bin/golangci-lint bin/deadcode bin/helm dist
