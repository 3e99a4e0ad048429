package webhook

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
	"github.com/mirrorset-guard/mirrorset-guard/policy/plan"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rollout"
	"github.com/mirrorset-guard/mirrorset-guard/policy/settings"
	"github.com/mirrorset-guard/mirrorset-guard/review"
)

// lostCluster is the inventory of a cluster with one image, which is nowhere but at its
// source.
type lostCluster struct{}

func (lostCluster) Mirrors(context.Context) (mirrors.Set, error) { return mirrors.Set{}, nil }

func (lostCluster) Cluster(context.Context) (plan.Cluster, error) {
	return plan.Cluster{Images: policy.NewImages(policy.Image{Ref: "quay.io/shop/cart:v1", Consumers: []policy.Consumer{
		{Kind: "Deployment", Namespace: "shop", Name: "cart", Use: policy.Running},
	}})}, nil
}

func (lostCluster) Rendered(context.Context, string) (*rollout.Rendered, error) {
	return nil, rollout.ErrGone
}

func (lostCluster) Notes() []string { return nil }

func onlyAtTheSource(_ context.Context, locations []mirrors.Location) policy.Facts {
	facts := policy.Facts{}
	for _, l := range locations {
		facts[l] = &policy.Fact{Presence: policy.Absent, AsNodes: true, Time: time.Now()}
		if strings.HasPrefix(l.Ref, "quay.io/") {
			facts[l] = &policy.Fact{Presence: policy.Present, Time: time.Now()}
		}
	}
	return facts
}

// TestModesAndExemptions: what becomes of a change that the rules deny, by the mode and by who
// asks, from the request to the response, the audit annotations and the log.
func TestModesAndExemptions(t *testing.T) {
	const why = "the one image it reroutes could not be pulled safely afterwards"
	admins := settings.Exemption{Name: "admins", Groups: []string{"system:masters"}}
	for _, tt := range []struct {
		reason   string
		settings settings.Settings
		allowed  bool
		audit    map[string]string // of mode, verdict and exemptions
		warning  string            // "" for none at all
		log      string
	}{
		{"enforced", settings.Settings{}, false, map[string]string{"verdict": "denied"}, "", "Reviewed mirror change"},
		{"warned", settings.Settings{Mode: policy.ModeWarn}, true, map[string]string{"verdict": "waived", "mode": "warn"}, "Mode warn: in mode enforce ImageTagMirrorSet apps would be refused: the one image it reroutes", "Admitted mirror change that mode enforce would refuse"},
		{"recorded", settings.Settings{Mode: policy.ModeAudit}, true, map[string]string{"verdict": "waived", "mode": "audit"}, "", "Admitted mirror change that mode enforce would refuse"},
		{"a group of the user is exempt", settings.Settings{Exemptions: []settings.Exemption{admins}}, true, map[string]string{"verdict": "allowed", "exemptions": "admins"}, "Exemption admins admits what would be denied: ImageMissing", "Reviewed mirror change"},
		{"another user is", settings.Settings{Exemptions: []settings.Exemption{{Name: "e", Users: []string{"eve"}}}}, false, map[string]string{"verdict": "denied"}, "", "Reviewed mirror change"},
		{"exempt, and recorded only", settings.Settings{Mode: policy.ModeAudit, Exemptions: []settings.Exemption{admins}}, true, map[string]string{"verdict": "allowed", "mode": "audit", "exemptions": "admins"}, "", "Reviewed mirror change"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			h := &Handler{Options: Options{Reviewer: &review.Reviewer{
				Inventory: lostCluster{}, Registries: review.RegistriesFunc(onlyAtTheSource),
				SettingsNow: func() settings.Settings { return tt.settings },
			}}}
			var lines []string
			ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
			resp := h.Handle(ctx, creation(tagMirrorSet("apps", "quay.io")))
			if resp.Allowed != tt.allowed {
				t.Fatalf("allowed = %v: %v", resp.Allowed, resp.Result)
			}
			got := map[string]string{}
			for _, key := range []string{"verdict", "mode", "exemptions"} {
				if value, ok := resp.AuditAnnotations[key]; ok {
					got[key] = value
				}
			}
			if diff := cmp.Diff(tt.audit, got); diff != "" {
				t.Errorf("audit annotations (-want +got):\n%s", diff)
			}
			waived := tt.audit["verdict"] == "waived"
			if reason := resp.AuditAnnotations["reason"]; (waived || !tt.allowed) != strings.Contains(reason, why) {
				t.Errorf("the audit annotation says %q", reason)
			}
			if tt.warning == "" && len(resp.Warnings) > 0 || !strings.Contains(strings.Join(resp.Warnings, "\n"), tt.warning) {
				t.Errorf("warnings %q, want %q", resp.Warnings, tt.warning)
			}
			if len(lines) != 1 || !strings.Contains(lines[0], tt.log) || waived != strings.Contains(lines[0], why) {
				t.Errorf("log %s", lines)
			}
		})
	}
}

// TestModesWithoutVerdict: the guard on trial refuses nothing, not even what it cannot judge.
func TestModesWithoutVerdict(t *testing.T) {
	broken := creation(tagMirrorSet("apps", "quay.io"))
	broken.Object = rawText("{")
	for mode, want := range map[policy.Mode]struct {
		allowed  bool
		warnings int
	}{policy.ModeEnforce: {false, 0}, policy.ModeWarn: {true, 1}, policy.ModeAudit: {true, 0}} {
		h := &Handler{Options: Options{
			Mode: func() policy.Mode { return mode },
			Reviewer: ReviewerFunc(func(context.Context, mirrors.Edit) (review.Record, error) {
				return review.Record{}, errors.New("no cluster")
			}),
		}}
		for _, req := range []struct {
			verdict string
			allowed bool
		}{{"none", h.Handle(t.Context(), creation(tagMirrorSet("apps", "quay.io"))).Allowed}, {"malformed", h.Handle(t.Context(), broken).Allowed}} {
			if req.allowed != want.allowed {
				t.Errorf("mode %s, %s: allowed = %v", mode, req.verdict, req.allowed)
			}
		}
		resp := h.Handle(t.Context(), creation(tagMirrorSet("apps", "quay.io")))
		if len(resp.Warnings) != want.warnings || resp.AuditAnnotations["verdict"] != "none" || !strings.Contains(resp.AuditAnnotations["reason"], "no cluster") {
			t.Errorf("mode %s: warnings %q, audit annotations %v", mode, resp.Warnings, resp.AuditAnnotations)
		}
	}
}
