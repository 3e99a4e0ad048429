package judge_test

import (
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/registry/wire"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/snapshot"
	"github.com/mirrorset-guard/mirrorset-guard/review/environment"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/judge"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness/target"
	testrelease "github.com/mirrorset-guard/mirrorset-guard/test/release"
)

// A stage is a release on a mirror, and a cluster that is offered it.
type stage struct{ *testrelease.Stage }

func newStage(t testing.TB, images int) stage {
	t.Helper()
	s := stage{testrelease.Mirrored(t, images)}
	s.Without()
	return s
}

// with returns the objects of the cluster with texts replaced, each of which is among them. For "", the new text comes after them.
func (s stage) with(t testing.TB, oldnew ...string) string {
	t.Helper()
	objects := s.Objects(s.Signed)
	for i := 0; i < len(oldnew); i += 2 {
		switch before, by := oldnew[i], oldnew[i+1]; {
		case before == "":
			objects += "---\n" + by + "\n"
		case !strings.Contains(objects, before):
			t.Fatalf("no %q among the objects", before)
		default:
			objects = strings.ReplaceAll(objects, before, by)
		}
	}
	return objects
}

// DigestOf returns the digest of an image of the release.
func (s stage) digestOf(name string) string {
	path := s.PartOf(name, "image").Path
	return path[strings.LastIndex(path, "/")+1:]
}

// worldOf opens the cluster of a dump.
func worldOf(t testing.TB, objects string) judge.World {
	t.Helper()
	dump, err := snapshot.ReadFrom(strings.NewReader(objects), "the dump")
	if err != nil {
		t.Fatal(err)
	}
	w := environment.FromDump(dump, environment.Options{Registry: wire.Options{AllowLoopback: true}})
	t.Cleanup(w.Close)
	reviewer := w.Reviewer()
	return judge.World{Cluster: w.Cluster, Reviewer: &reviewer, Client: w.Registries.Client, Flags: " --from dump.yaml"}
}

func find(t testing.TB, w judge.World, asked string) target.Release {
	t.Helper()
	choice, err := target.Find(w.Cluster.RolloutObjects().Version, asked)
	if err != nil {
		t.Fatal(err)
	}
	return choice
}

// judgeOf judges the release of the stage, for the cluster of a dump.
func judgeOf(t testing.TB, objects string) *readiness.Readiness {
	t.Helper()
	w := worldOf(t, objects)
	r, err := judge.Release(t.Context(), w, find(t, w, testrelease.Version))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
