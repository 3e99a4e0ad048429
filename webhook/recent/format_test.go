package recent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

// recordedList is a list as it was written when its format was recorded, unpacked.
func recordedList(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "list.json"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// TestFormatIsKept: lists are read and written as they were recorded, because replicas of the previous
// version read them during an update, and would know less of what was admitted. A version that is to write
// another format is preceded by one that reads it: see docs/upgrade.md.
func TestFormatIsKept(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "shop"}}
	entries := []entry{
		{id: "1", stranger: true, edit: mirrors.Put(&configv1.ImageTagMirrorSet{ObjectMeta: meta, Spec: configv1.ImageTagMirrorSetSpec{ImageTagMirrors: []configv1.ImageTagMirrors{
			{Source: "quay.io/shop", Mirrors: []configv1.ImageMirror{"mirror.example.com/shop"}, MirrorSourcePolicy: configv1.NeverContactSource},
		}}})},
		{id: "2", edit: mirrors.Join(
			mirrors.Delete(&configv1.ImageDigestMirrorSet{ObjectMeta: meta}),
			mirrors.RemoveFinally(&configv1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}}),
		)},
		{id: "3", claim: 2, edit: mirrors.Put(&configv1.Image{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: configv1.ImageSpec{RegistrySources: configv1.RegistrySources{BlockedRegistries: []string{"a.example.com"}}}})},
	}
	text, err := encode(entries, "guard-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := unpack(text)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, raw := range list {
		lines = append(lines, string(raw))
	}
	if got := "[" + strings.Join(lines, ",\n") + "]"; got != recordedList(t) {
		t.Errorf("it is written as\n%s", got)
	}
	for i, en := range decode(packed(t, recordedList(t)), nil, nil) {
		want, err := json.Marshal(entries[i].edit)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(en.edit)
		if err != nil || en.unreadable != "" || en.by != "guard-1" || en.id != entries[i].id || en.claim != entries[i].claim || en.stranger != entries[i].stranger || string(got) != string(want) {
			t.Errorf("entry %d is read as %+v, %s: %v", i, en, got, err)
		}
	}
}

// TestLaterVersions: changes that replicas of a later version admit in a format which is not known here
// are waited for, several in an hour, and none of them is taken for garbage.
func TestLaterVersions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newShared()
		nothing := func(context.Context, []mirrors.Edit) (mirrors.Set, error) { return mirrors.Set{}, nil }
		e := s.replica(t, "a", Options{Stored: nothing, OtherWebhooks: func(context.Context) (time.Duration, error) { return 5 * time.Second, nil }})
		for n := range mostWaits + 1 {
			s.put(packed(t, fmt.Sprintf(`[{"v":2,"id":"later-%d","by":"b"}]`, n)))
			await()
			_, err := e.AwaitView(from(t, "", time.Second))
			waits := err != nil && strings.Contains(err.Error(), "cannot be read here: it has format 2, and this version of the guard reads 1")
			if waits != (n < mostWaits) {
				t.Errorf("change %d: %v", n, err)
			}
			time.Sleep(10 * time.Second)
		}
		if notes := e.Notes(); len(notes) != 0 {
			t.Errorf("notes %q", notes)
		}
	})
}
