package sync

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mirrorset-guard/mirrorset-guard/test/campaign"
	"github.com/mirrorset-guard/mirrorset-guard/test/clitest"
	testskip "github.com/mirrorset-guard/mirrorset-guard/test/skip"
)

// known are seeds of worlds in which something was once broken: by a plan that took a repository for new, by one with images before their
// signatures, by plans and sync with images of two sources that share a part at the mirror, and not its signatures, by image sets with what
// nodes cannot read as signatures, by sync that took a tag for new as the mirror called its repository unknown, and by sync that brought with
// an image another that refers to it, without its signatures.
var known = []uint64{36, 46, 1714, 248, 1601, 1129, 1394, 731}

// TestNoWriteBreaks: in random worlds, after each single write of sync, and of each line of a plan that is carried out, every pull that
// worked before works, and every tag names what it named.
func TestNoWriteBreaks(t *testing.T) {
	worlds := campaign.Times(40, 2000)
	if testskip.Integration() && !campaign.On() {
		worlds = 10
	}
	if s := os.Getenv("WRITES_WORLDS"); s != "" {
		worlds, _ = strconv.Atoi(s)
	}
	first := uint64(1)
	if s := os.Getenv("WRITES_SEED"); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
	}
	seeds := slices.Clone(known)
	for i := range worlds {
		seeds = append(seeds, first+uint64(i))
	}
	var writes, pulls atomic.Int64
	t.Run("worlds", func(t *testing.T) {
		for _, seed := range seeds {
			for _, way := range []string{"sync", "plan"} {
				t.Run(fmt.Sprint(way, " ", seed), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, seed)
					h := w.hold(t)
					if way == "sync" {
						h.sync(seed)
					} else {
						h.plan([]string{"sh", "mapping", "imageset"}[seed%3], seed/3%2 == 0)
					}
					writes.Add(int64(h.writes))
					pulls.Add(int64(len(h.work)))
				})
			}
		}
	})
	t.Logf("%d worlds from seed %d: %d writes, %d pulls that worked", len(seeds), first, writes.Load(), pulls.Load())
	if writes.Load() == 0 || pulls.Load() == 0 {
		t.Error("nothing was put to the test")
	}
}

// A holding holds writes to what worked before.
type holding struct {
	*world
	t      *testing.T
	work   []*pull
	tagged map[string]string // digests by path
	moves  bool

	mu     sync.Mutex
	writes int
	broken map[string]bool
	steps  []string
}

func (w *world) hold(t *testing.T) *holding {
	t.Helper()
	h := &holding{world: w, t: t, tagged: map[string]string{}, broken: map[string]bool{}}
	for path := range w.tags {
		h.tagged[path] = h.digestAt(path)
	}
	w.mirror.wrote = h.wrote
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\nWrites:\n%s", w.story.String(), strings.Join(h.steps, "\n"))
		}
	})
	return h
}

// digestAt returns the digest that a tag of the mirror names, whoever may ask.
func (h *holding) digestAt(path string) string {
	status, header, _ := h.mirror.ask(h.t, http.MethodHead, path, "", nil)
	if status != http.StatusOK {
		return ""
	}
	return header.Get("Docker-Content-Digest")
}

// begin notes which of pulls work.
func (h *holding) begin(pulls []pull) {
	for i := range pulls {
		if pulls[i].works(h.t, h.signatures) {
			h.work = append(h.work, &pulls[i])
		}
	}
}

func (h *holding) wrote(what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes++
	h.steps = append(h.steps, what)
	for _, p := range h.work {
		if !h.broken[p.name] && !p.works(h.t, h.signatures) {
			h.broken[p.name] = true
			h.t.Errorf("%s worked before %s", p.name, what)
		}
	}
	if h.moves || !strings.Contains(what, "/manifests/") {
		return
	}
	for path, digest := range h.tagged {
		if strings.HasSuffix(what, path) && h.digestAt(path) != digest {
			h.t.Errorf("%s moved the tag, which named %s", what, digest)
		}
	}
}

func (h *holding) run(args ...string) clitest.Outcome {
	h.t.Helper()
	args = append(args, "--allow-loopback")
	o := clitest.Invoke(h.t, run, "", args...)
	h.t.Cleanup(func() {
		if h.t.Failed() {
			h.t.Logf("%s: %d\n%s\n%s", strings.Join(args, " "), o.Code, o.Out, o.Err)
		}
	})
	return o
}

// sync runs sync, for the configuration in force or for a change.
func (h *holding) sync(seed uint64) {
	encoded := base64.StdEncoding.EncodeToString([]byte(pusher + ":secret"))
	auths, _ := json.Marshal(map[string]any{"auths": map[string]any{h.mirror.host: map[string]string{"auth": encoded}}})
	args := []string{"sync", "--push-secret", clitest.Written(h.t, "push.json", string(auths))}
	objects, sets := h.objects(), h.sets()
	h.begin(h.after)
	if seed%2 == 0 {
		h.begin(h.before)
		args = append(args, "--from", clitest.Written(h.t, "cluster.yaml", objects), "-f", clitest.Written(h.t, "sets.yaml", sets))
	} else {
		args = append(args, "--from", clitest.Written(h.t, "cluster.yaml", objects+sets))
	}
	if h.moves = seed%7 == 0; h.moves {
		args = append(args, "--move-tags")
	}
	h.run(args...)
}

// plan has check write a plan for a change, and carries it out.
func (h *holding) plan(format string, missing bool) {
	h.begin(h.after)
	h.begin(h.before)
	args := []string{"plan", "--from", clitest.Written(h.t, "cluster.yaml", h.objects()), "-f", clitest.Written(h.t, "sets.yaml", h.sets()), "-o", format}
	if missing {
		args = append(args, "--missing")
	}
	out := h.run(args...).Out
	for _, line := range strings.Split(out, "\n") {
		switch source, destination, ok := strings.Cut(line, "="); {
		case strings.HasPrefix(line, "#"):
		case format == "sh" && strings.HasPrefix(line, "copy "):
			for _, command := range strings.Split(line, " && ") { // ends with what fails
				fields := strings.Fields(command)
				if !h.copy(strings.TrimPrefix(fields[len(fields)-2], "docker://"), strings.TrimPrefix(fields[len(fields)-1], "docker://")) {
					break
				}
			}
		case format == "mapping" && ok:
			h.copy(source, destination)
		}
	}
	if format == "imageset" {
		h.mirrorSet(out)
	}
}

// mirrorSet does what oc-mirror does, which copies signatures too, and adds them to those that are there.
func (h *holding) mirrorSet(out string) {
	var set struct {
		Mirror struct {
			AdditionalImages []struct{ Name, TargetRepo string }
		}
	}
	if err := yaml.Unmarshal([]byte(out), &set); err != nil {
		h.t.Fatal(err)
	}
	_, to, _ := strings.Cut(strings.SplitN(out, "\n", 2)[0], " docker://")
	for _, i := range set.Mirror.AdditionalImages {
		name, digest, byDigest := strings.Cut(i.Name, "@")
		host, path, _ := strings.Cut(name, "/")
		path, tag, tagged := strings.Cut(path, ":")
		target, from := i.TargetRepo, host+"/"+path
		if target == "" {
			target = path
		}
		switch {
		case byDigest && !tagged:
			tag = strings.TrimPrefix(digest, "sha256:")
			fallthrough
		case byDigest:
			from += "@" + digest
		default:
			from += ":" + tag
		}
		for _, at := range h.instancesOf(path, cmp.Or(digest, tag)) {
			sig := ":" + strings.Replace(at, ":", "-", 1) + ".sig"
			if h.digestAt("/v2/"+repositoryIn(to, target)+"/manifests/"+sig[1:]) == "" {
				h.copy(host+"/"+path+sig, to+"/"+target+sig)
			}
		}
		h.copy(from, to+"/"+target+":"+tag)
	}
}

func repositoryIn(destination, target string) string {
	_, path, found := strings.Cut(destination, "/")
	if !found {
		return target
	}
	return path + "/" + target
}

func (h *holding) instancesOf(repository, ref string) (digests []string) {
	found, m := (place{at: h.source, repository: repository}).manifest(h.t, ref)
	for _, d := range m.Manifests {
		digests = append(digests, d.Digest)
	}
	if len(digests) == 0 {
		digests = []string{digestOf(found.body)}
	}
	return digests
}

// copy copies an image as skopeo does: all blobs that the registry lacks, the parts of an index, and the image.
func (h *holding) copy(from, to string) bool {
	repository, ref := split(from)
	target, as := split(to)
	at := place{at: h.source, repository: repository}
	var put func(ref, as string) bool
	put = func(ref, as string) bool {
		found, m := at.manifest(h.t, ref)
		if found.status != http.StatusOK {
			return false
		}
		for _, d := range m.Manifests {
			if !put(d.Digest, d.Digest) {
				return false
			}
		}
		if found.mediaType != indexType {
			for _, b := range append(m.Layers, m.Config) {
				content := h.source.get(h.t, "/v2/"+repository+"/blobs/"+b.Digest)
				held := h.mirror.get(h.t, "/v2/"+target+"/blobs/"+b.Digest).status == http.StatusOK
				if content.status != http.StatusOK || !held && !putBlob(h.t, "http://"+h.mirror.host, target, content.body) {
					return false
				}
			}
		}
		return putManifest(h.t, "http://"+h.mirror.host, target, as, found.mediaType, found.body)
	}
	return put(ref, as)
}

// split returns the repository, without the host, and the tag or digest of a reference.
func split(ref string) (repository, version string) {
	_, path, _ := strings.Cut(ref, "/")
	if repository, digest, ok := strings.Cut(path, "@"); ok {
		repository, _, _ = strings.Cut(repository, ":")
		return repository, digest
	}
	repository, version, _ = strings.Cut(path, ":")
	return repository, version
}
