package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mirrorset-guard/mirrorset-guard/api/config/v1alpha1"
	"github.com/mirrorset-guard/mirrorset-guard/internal/mounted"
)

// A volume is a ConfigMap as kubelets mount it: the file is a symbolic link into ..data, which
// is a link to a folder that holds one version of the files, and is swapped as a whole
// (k8s.io/kubernetes/pkg/volume/util/atomic_writer.go).
type volume struct {
	t       *testing.T
	dir     string
	version int
}

const pipe = "a pipe"

func newVolume(t *testing.T, text string) *volume {
	v := &volume{t: t, dir: t.TempDir()}
	v.update(text)
	v.must(os.Symlink(filepath.Join("..data", "config.yaml"), v.file()))
	return v
}

func (v *volume) file() string { return filepath.Join(v.dir, "config.yaml") }

func (v *volume) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

func (v *volume) update(text string) {
	v.t.Helper()
	v.version++
	name := "..version" + string(rune('0'+v.version))
	v.must(os.Mkdir(filepath.Join(v.dir, name), 0o700))
	at := filepath.Join(v.dir, name, "config.yaml")
	if text == pipe {
		v.must(syscall.Mkfifo(at, 0o600)) // into which nobody writes
	} else {
		v.must(os.WriteFile(at, []byte(text), 0o600))
	}
	v.must(os.Symlink(name, filepath.Join(v.dir, "..data_tmp")))
	v.must(os.Rename(filepath.Join(v.dir, "..data_tmp"), filepath.Join(v.dir, "..data")))
}

// TestReload: good, bad, gone and in force once nothing is against it, as a kubelet would bring it. What came of each is
// awaited; the time between two readings passes by itself.
func TestReload(t *testing.T) {
	v := newVolume(t, header+"mode: warn\n")
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		log := funcr.New(func(_, args string) {
			lines = append(lines, strings.NewReplacer(v.dir, "{dir}", `\"`, `"`).Replace(args))
		}, funcr.Options{})
		var inForce []v1alpha1.Mode
		var passed atomic.Bool
		outcomes, checked := make(chan Outcome), make(chan struct{})
		r, err := NewReloader(Options{
			Path: v.file(), Metrics: metrics, Log: log,
			Accept: func(c Configuration) error {
				if c.AllowSourceFallback && !passed.Load() {
					return errors.New("allowSourceFallback is set by a flag")
				}
				inForce = append(inForce, c.Mode)
				return nil
			},
			Report: func(ctx context.Context, o Outcome) error {
				select {
				case outcomes <- o:
					<-checked
				case <-ctx.Done():
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go r.Run(ctx)
		for _, step := range []struct {
			reason, text string
			inForce      v1alpha1.Mode
			err          string
		}{
			{"another mode", header + "mode: audit\n", "audit", ""},
			{"a mistake", header + "mode: adit\n", "audit", `mode: Unsupported value: "adit": supported values: "enforce", "warn", "audit"`},
			{"another mistake", header + "mode: enforce\nverifyBlobs: some\n", "audit", `verifyBlobs: Unsupported value: "some": supported values: "all", "protected", "none"`},
			{"half a file", "apiVersion: [", "audit", "yaml: line 1: did not find expected node content"},
			{"what a flag sets", header + "mode: enforce\nallowSourceFallback: true\n", "audit", "allowSourceFallback is set by a flag"},
			{"gone", "", "audit", "the file cannot be read: open {dir}/config.yaml: no such file or directory"},
			{"a pipe", pipe, "audit", "the file cannot be read: {dir}/config.yaml: not a regular file"},
			{"back, with the mistake", header + "mode: enforce\nallowSourceFallback: true\n", "audit", "allowSourceFallback is set by a flag"},
			{"the reason has passed", header + "mode: enforce\nallowSourceFallback: true\n", "enforce", ""},
		} {
			time.Sleep(time.Minute) // in which the reason is no news
			passed.Store(step.err == "")
			if step.text != "" {
				v.update(step.text)
			} else {
				v.must(os.Remove(filepath.Join(v.dir, "..data")))
			}
			if _, err := ReadMounted(v.file()); step.text == pipe && !errors.Is(err, mounted.ErrNotRegular) {
				t.Errorf("at the start: %v", err)
			}
			outcome, message := <-outcomes, ""
			if outcome.Err != nil {
				message = strings.ReplaceAll(outcome.Err.Error(), v.dir, "{dir}")
			}
			if message != step.err || inForce[len(inForce)-1] != step.inForce {
				t.Errorf("%s: %q, mode %s, want %q, mode %s", step.reason, message, inForce[len(inForce)-1], step.err, step.inForce)
			}
			successful := 1.0
			if step.err != "" {
				successful = 0
			}
			if got := testutil.ToFloat64(metrics.successful); got != successful || testutil.ToFloat64(metrics.mode.WithLabelValues(string(step.inForce))) != 1 {
				t.Errorf("%s: last_reload_successful %v, want %v", step.reason, got, successful)
			}
			if line := lines[len(lines)-1]; !strings.Contains(line, step.err) || step.err == "" != strings.Contains(line, "Reloaded configuration") {
				t.Errorf("%s: log line %s", step.reason, line)
			}
			checked <- struct{}{}
		}
		cancel()
		synctest.Wait()
		if want := []v1alpha1.Mode{"warn", "audit", "enforce"}; !cmp.Equal(want, inForce) || len(lines) != 9 {
			t.Errorf("in force one after the other %v, want %v, with %d log lines", inForce, want, len(lines))
		}
	})
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v, %v", err, problems)
	}
}

// TestTooLarge: no more of a file is read than shows that it is too large.
func TestTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(header), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<40); err != nil { // no room is taken for what is not there
		t.Fatal(err)
	}
	for _, read := range []func(string) (Configuration, error){Read, ReadMounted} {
		if _, err := read(path); err == nil || !strings.Contains(err.Error(), "it has more than 1048576 bytes, which is the most") {
			t.Errorf("got %v", err)
		}
	}
}

// TestReportAgain: what could not be reported is reported at the next reading, and only the
// latest.
func TestReportAgain(t *testing.T) {
	v := newVolume(t, header)
	synctest.Test(t, func(t *testing.T) {
		tried := make(chan Outcome)
		var up atomic.Bool
		r, err := NewReloader(Options{
			Path: v.file(), Accept: func(Configuration) error { return nil },
			Report: func(ctx context.Context, o Outcome) error {
				var err error
				if !up.Load() { // before the test hears of the attempt, and may change it
					err = errors.New("no API server")
				}
				select {
				case tried <- o:
				case <-ctx.Done():
				}
				return err
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go r.Run(ctx)
		v.update("kind: [")
		for range 3 {
			if o := <-tried; o.Err == nil {
				t.Error("the mistake is forgotten")
			}
		}
		v.update(header)
		var last Outcome
		for last = <-tried; last.Err != nil; last = <-tried {
		}
		up.Store(true)
		if last = <-tried; last.Err != nil {
			t.Error(last.Err)
		}
		cancel()
		synctest.Wait()
		select {
		case o := <-tried:
			t.Errorf("reported again: %+v", o)
		default:
		}
	})
}

// TestNotEvenOnce: without a good file there is nothing to go by.
func TestNotEvenOnce(t *testing.T) {
	v := newVolume(t, header+"mode: x\n")
	_, err := NewReloader(Options{Path: v.file()})
	if want := v.file() + `: mode: Unsupported value: "x": supported values: "enforce", "warn", "audit"`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
