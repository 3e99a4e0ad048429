package alerts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// A scenario is a world in which something is the matter, or only seems to be.
type scenario struct {
	reason string
	change world
	after  time.Duration
	// want are the alerts that fire then, and no others.
	want []string
	// says is in the description of the first of them.
	says string
}

const (
	minute = time.Minute
	hour   = time.Hour
)

// gone is a replica of which nothing is scraped after some time, for good: the last value is
// followed by a staleness marker, as Prometheus writes it.
func gone(replica string, w world) world {
	out := world{}
	for series, values := range w {
		if strings.HasSuffix(series, " "+replica) {
			first, _, _ := strings.Cut(values, "x")
			out[series] = first + "x20 stale"
		}
	}
	return out
}

func both(series, values string) world {
	return world{series + " a": values, series + " b": values}
}

func union(worlds ...world) world {
	out := world{}
	for _, w := range worlds {
		maps.Copy(out, w)
	}
	return out
}

// syncJob are the series of a Job of the CronJob that copies, with what became of it (complete, failed).
func syncJob(began, became string) world {
	return world{
		`kube_job_status_start_time{job_name="mirrorset-guard-sync-` + began + `"} a`:               began + forLong,
		`kube_job_` + became + `{job_name="mirrorset-guard-sync-` + began + `",condition="true"} a`: "1" + forLong,
	}
}

const (
	rejections = `apiserver_admission_webhook_rejection_count{name="mirrorsets.mirrorset-guard.io",type="validating",operation="CREATE",error_type="calling_webhook_error",rejection_code="0"} -`
	denials    = `apiserver_admission_webhook_rejection_count{name="mirrorsets.mirrorset-guard.io",type="validating",operation="CREATE",error_type="no_error",rejection_code="403"} -`
	strangers  = `apiserver_admission_webhook_rejection_count{name="other.example.com",type="validating",operation="CREATE",error_type="calling_webhook_error",rejection_code="0"} -`
	failedOpen = `apiserver_admission_webhook_fail_open_count{name="mirrorset-deletions.mirrorset-guard.io",type="validating"} -`
)

// In 0x20 1x100 the value changes after 10 minutes.
var scenarios = []scenario{
	{"all is well", nil, 3 * hour, nil, ""},

	{"nothing is scraped", union(gone("a", healthy()), gone("b", healthy())), 25 * minute, []string{"MirrorsetGuardDown"}, "can be neither created nor changed"},
	{"nothing is scraped for long", union(gone("a", healthy()), gone("b", healthy())), hour, []string{"MirrorsetGuardDown", "MirrorsetGuardNotVerifying"}, ""},
	{"nothing is scraped, but not for long", union(gone("a", healthy()), gone("b", healthy())), 18 * minute, nil, ""},
	{"replicas that do not answer are there", both("up", "1x20 0x100"), 25 * minute, []string{"MirrorsetGuardDown"}, ""},
	{"one of two replicas is left", gone("b", healthy()), hour, nil, ""}, // TargetDown is of the platform

	{"a replica is not ready", world{"mirrorset_guard_ready b": "1x20 0x100"}, 26 * minute, []string{"MirrorsetGuardNotReady"}, "pod b of"},
	{"a replica starts", world{"mirrorset_guard_ready b": "0x20 1x100"}, 20 * minute, nil, ""},
	{"a scrape fails now and then", both("mirrorset_guard_ready", "0 _ 0 0 _ 0 _ _ _ 0x60"), 16 * minute, []string{"MirrorsetGuardNotReady", "MirrorsetGuardNotReady"}, ""},

	{"the first call that fails", world{rejections: "_x20 1x100"}, 11 * minute, []string{"MirrorsetGuardCallsFail"}, ""},
	{"another call fails", world{rejections: "7x40 8x100"}, 22 * minute, []string{"MirrorsetGuardCallsFail"}, ""},
	{"a call that failed is long ago", world{rejections: "_x20 1x100"}, 40 * minute, nil, ""},
	{"the guard denies", world{denials: "0+5x100"}, 30 * minute, nil, ""},
	{"calls of another webhook fail", world{strangers: "0+5x100"}, 30 * minute, nil, ""},
	{"an API server starts anew", world{rejections: "7x40 0x100"}, 22 * minute, nil, ""},

	{"a deletion that nobody reviewed", world{failedOpen: "_x20 1x400"}, 30 * minute, []string{"MirrorsetGuardDeletionNotReviewed"}, ""},
	{"it is long ago", world{failedOpen: "_x20 1x400"}, 90 * minute, nil, ""},

	{
		"three reviews run out of time",
		world{`mirrorset_guard_review_deadline_ratio_count a`: "5x10 6x10 7x10 8x200", `mirrorset_guard_review_deadline_ratio_bucket{le="0.9"} a`: "5x200"},
		20 * minute,
		[]string{"MirrorsetGuardReviewsNearDeadline"},
		"minutes, 3 reviews took",
	},
	{
		"one large change does",
		world{`mirrorset_guard_review_deadline_ratio_count a`: "5x10 6x200", `mirrorset_guard_review_deadline_ratio_bucket{le="0.9"} a`: "5x200"},
		20 * minute, nil, "",
	},

	{"the webhooks are gone", both("mirrorset_guard_certificate_verified", "1x20 stale"), hour, []string{"MirrorsetGuardSwitchedOff"}, ""},
	{"they are gone for a change", both("mirrorset_guard_certificate_verified", "1x20 stale _x30 1x200"), hour, nil, ""},
	{"a webhook fails open", both("mirrorset_guard_registration_differences", "0x20 1x200"), 30 * minute, []string{"MirrorsetGuardRegistrationChanged"}, "In 1 points"},
	{"one replica has seen it", world{"mirrorset_guard_registration_differences b": "0x20 2x200"}, 30 * minute, []string{"MirrorsetGuardRegistrationChanged"}, ""},
	{"it is applied anew at once", both("mirrorset_guard_registration_differences", "0x20 1x3 0x200"), 30 * minute, nil, ""},
	{"there are none, for which there is another alert", both("mirrorset_guard_certificate_verified", "1x20 stale").with(both("mirrorset_guard_registration_differences", "0x20 1x200")), hour, []string{"MirrorsetGuardRegistrationChanged", "MirrorsetGuardSwitchedOff"}, ""},
	{"a pod asks for a review", world{`mirrorset_guard_requests_refused_total{reason="unauthenticated"} b`: "0x20 1x200"}, 30 * minute, []string{"MirrorsetGuardStrangersAsk"}, "401"},
	{"it was an hour ago", world{`mirrorset_guard_requests_refused_total{reason="unauthenticated"} b`: "0x20 1x200"}, 80 * minute, nil, ""},
	{"an API server sends too much", world{`mirrorset_guard_requests_refused_total{reason="too_large"} b`: "0x20 1x200"}, 30 * minute, nil, ""},
	{"the certificate is not accepted", world{"mirrorset_guard_certificate_verified b": "1x20 0x200"}, 20 * minute, []string{"MirrorsetGuardCertificateNotVerified"}, ""},
	{"CA and certificate are renewed", both("mirrorset_guard_certificate_verified", "1x20 0 1x200"), 20 * minute, nil, ""},
	{"a certificate without its key", both("mirrorset_guard_certificate_last_reload_successful", "1x20 0x200"), 25 * minute, []string{"MirrorsetGuardCertificateNotLoaded"}, ""},
	{"it is half written", both("mirrorset_guard_certificate_last_reload_successful", "1x20 0 1x200"), 25 * minute, nil, ""},
	{"the certificate is not renewed", both("mirrorset_guard_certificate_expiry_timestamp_seconds", "605000x300"), 2 * hour, []string{"MirrorsetGuardCertificateExpiring"}, "expires in 6d 22h"},
	{"it is renewed late", both("mirrorset_guard_certificate_expiry_timestamp_seconds", "604800x60 864000x300"), 2 * hour, nil, ""},

	{"an audit record is lost", world{`mirrorset_guard_audit_records_total{result="lost"} a`: "0x20 1x200"}, 30 * minute, []string{"MirrorsetGuardAuditIncomplete"}, ""},
	{"a line of the log is lost", world{`mirrorset_guard_log_lines_lost_total a`: "0x20 1x200"}, 30 * minute, []string{"MirrorsetGuardAuditIncomplete"}, ""},
	{"audit records wait, and are lost", union(both("mirrorset_guard_audit_oldest_queued_seconds", "0+30x200"), both(`mirrorset_guard_audit_records_total{result="lost"}`, "0x20 1x200")), 30 * minute, []string{"MirrorsetGuardAuditIncomplete"}, ""},
	{"audit records wait for a moment", both("mirrorset_guard_audit_oldest_queued_seconds", "0x20 200x200"), hour, nil, ""},

	{"a replica may not use the Lease", world{"mirrorset_guard_recent_edits_shared b": "1x20 0x200"}, 25 * minute, []string{"MirrorsetGuardChangesNotShared"}, "may both be admitted"},
	{"the Role is applied after the Deployment", both("mirrorset_guard_recent_edits_shared", "0x10 1x200"), 12 * minute, nil, ""},
	{"one replica by itself", both("mirrorset_guard_recent_edits_shared", ""), hour, nil, ""},

	{"somebody writes the Lease", world{`mirrorset_guard_recent_edits_disturbed_total{what="garbage"} b`: "0x20 1x200"}, 30 * minute, []string{"MirrorsetGuardLeaseDisturbed"}, "may be delayed"},
	{"the Lease was deleted long ago", world{`mirrorset_guard_recent_edits_disturbed_total{what="deleted"} b`: "0x20 1x200"}, 90 * minute, nil, ""},

	{"a refusal is overridden", world{`mirrorset_guard_overrides_total{result="used"} b`: "0x20 1x200"}, 30 * minute, []string{"MirrorsetGuardOverrideUsed"}, ""},
	{"it is long ago", world{`mirrorset_guard_overrides_total{result="used"} b`: "0x20 1x200"}, 80 * minute, nil, ""},
	{"somebody tries who may not", world{`mirrorset_guard_overrides_total{result="forbidden"} b`: "0x20 1x200"}, 30 * minute, nil, ""},

	{
		"two kinds are out of date", both(`mirrorset_guard_inventory_source_stale{source="pods"}`, "0x20 1x100").with(both(`mirrorset_guard_inventory_source_stale{source="nodes"}`, "0x20 1x100")),
		20 * minute,
		[]string{"MirrorsetGuardInventoryStale"},
		"that it has to know: nodes, pods. Changes",
	},
	{"one replica's view is out of date", world{`mirrorset_guard_inventory_source_stale{source="pods"} b`: "0x20 1x100"}, 20 * minute, []string{"MirrorsetGuardInventoryStale"}, ""},
	{"it recovers at once", both(`mirrorset_guard_inventory_source_stale{source="pods"}`, "0x20 1x4 0x100"), 14 * minute, nil, ""},

	{"the file has mistakes", both("mirrorset_guard_config_last_reload_successful", "1x20 0x100"), 25 * minute, []string{"MirrorsetGuardConfigNotLoaded"}, ""},
	{"it is mended at once", both("mirrorset_guard_config_last_reload_successful", "1x20 0x4 1x100"), 25 * minute, nil, ""},
	{"there is no file", both("mirrorset_guard_config_last_reload_successful", ""), hour, nil, ""},

	{"the first run of sync failed", syncJob("7200", "failed"), minute, []string{"MirrorsetGuardSyncFails"}, "CronJob mirrorset-guard/mirrorset-guard-sync"},
	{"a run of sync succeeded, and the next failed", union(syncJob("3600", "complete"), syncJob("7200", "failed")), minute, []string{"MirrorsetGuardSyncFails"}, ""},
	{"a run of sync failed, and another is under way", union(syncJob("7200", "failed"), world{`kube_job_status_start_time{job_name="mirrorset-guard-sync-10800"} a`: "10800" + forLong}), minute, []string{"MirrorsetGuardSyncFails"}, ""},
	{"a run of sync failed, and the next succeeded", union(syncJob("7200", "failed"), syncJob("10800", "complete")), minute, nil, ""},
	{"a run of sync succeeded", syncJob("3600", "complete"), minute, nil, ""},
	{"the release that was chosen lacks images", next("desired", "_x20 1 2 3x200"), 20 * minute, []string{"MirrorsetGuardUpdateNotReady"}, "ClusterVersion names release 4.21.3 to update to"},
	{"one round has found so", next("desired", "_x20 1x200"), hour, nil, ""},
	{"a round finds it whole", next("desired", "_x20 1 0 1 0x200"), hour, nil, ""},
	{"it is copied", next("desired", "_x20 1 2x10 0x200"), hour, nil, ""},
	{"it is not chosen any more", next("desired", "_x20 1 2x10 stale"), hour, nil, ""},
	{"a release that is only recommended lacks images", next("recommended", "_x20 3x200"), hour, nil, ""},
	{"it could not be determined", next("desired", "_x20 0x200").with(world{`mirrorset_guard_update_state{marked="desired", state="unknown"} a`: "_x20 1x200"}), hour, nil, ""},
	{"two images are lost", world{`mirrorset_guard_standing_images{state="lost"} a`: "0x20 2x100"}, 20 * minute, []string{"MirrorsetGuardImagesLost"}, "mirror sets name: 2. Pods"},
	{"they are back at once", world{`mirrorset_guard_standing_images{state="lost"} a`: "0x20 2x4 0x100"}, 20 * minute, nil, ""},
	{"images could not be verified", world{`mirrorset_guard_standing_images{state="unverified"} a`: "0x20 2x100"}, hour, nil, ""},
	{
		"they are lost, and another replica takes over",
		union(world{`mirrorset_guard_standing_images{state="lost"} a`: "2x40 stale", `mirrorset_guard_standing_images{state="lost"} b`: "_x42 2x100"},
			world{`mirrorset_guard_standing_verifying a`: "1x40 0x100", `mirrorset_guard_standing_verifying b`: "0x42 1x100", `mirrorset_guard_standing_rounds_total{result="done"} b`: "0x42 1+1x100"}),
		22 * minute,
		[]string{"MirrorsetGuardImagesLost"},
		"",
	},

	{"a registry is dead", both(`mirrorset_guard_standing_registries{state="unreachable"}`, "0x20 1x100"), 30 * minute, []string{"MirrorsetGuardRegistryUnreachable"}, "for 15 minutes: 1. Nodes"},
	{"a registry restarts", both(`mirrorset_guard_standing_registries{state="unreachable"}`, "0x20 1x20 0x100"), 30 * minute, nil, ""},

	{"nobody verifies", both("mirrorset_guard_standing_verifying", "0x200"), 20 * minute, []string{"MirrorsetGuardNotVerifying"}, ""},
	{"rounds fail", world{`mirrorset_guard_standing_rounds_total{result="done"} a`: "0+1x10 10x200", `mirrorset_guard_standing_rounds_total{result="failed"} a`: "0x10 0+1x200"}, 50 * minute, []string{"MirrorsetGuardNotVerifying"}, ""},
	{"rounds do not end, and nobody verifies", union(both("mirrorset_guard_standing_verifying", "0x200"), both(`mirrorset_guard_standing_rounds_total{result="done"}`, "7x200")), 50 * minute, []string{"MirrorsetGuardNotVerifying"}, ""},
	{"the leader is another", world{`mirrorset_guard_standing_verifying a`: "1x40 0x200", `mirrorset_guard_standing_verifying b`: "0x44 1x200", `mirrorset_guard_standing_rounds_total{result="done"} a`: "0+1x40 40x200", `mirrorset_guard_standing_rounds_total{result="done"} b`: "0x44 0+1x200"}, hour, nil, ""},

	{"MCO rejects the configuration", world{`mirrorset_guard_standing_findings{rule="RejectedByMCO"} a`: "0x20 1x100"}, 25 * minute, []string{"MirrorsetGuardMCOStuck"}, ""},
	{"a rollout has stalled", world{`mirrorset_guard_rollout_stalled{pool="worker"} a`: "0x20 1x100"}, 13 * minute, []string{"RolloutStalledByMirror"}, "Pool worker has stalled"},
	{"two pools do", world{`mirrorset_guard_rollout_stalled{pool="worker"} a`: "0x20 1x100", `mirrorset_guard_rollout_stalled{pool="infra"} a`: "0x20 1x100"}, 13 * minute, []string{"RolloutStalledByMirror", "RolloutStalledByMirror"}, ""},
	{"a rollout goes on", world{`mirrorset_guard_rollout_stalled{pool="worker"} a`: "0x20 1x2 0x200"}, 25 * minute, nil, ""},
	{"it is repaired at once", world{`mirrorset_guard_standing_findings{rule="RejectedByMCO"} a`: "0x20 1x4 0x100"}, 25 * minute, nil, ""},
	{"another rule has a finding", world{`mirrorset_guard_standing_findings{rule="ImageMissing"} a`: "0x20 1x100"}, 25 * minute, nil, ""},
}

// TestScenarios: what should fire does, and nothing else.
func TestScenarios(t *testing.T) {
	fires, silent := map[string]bool{}, 0
	for _, s := range scenarios {
		t.Run(s.reason, func(t *testing.T) {
			got := firing(t, healthy().with(s.change), s.after)
			var names []string
			for _, f := range got {
				name := f.labels.Get("alertname")
				names = append(names, name)
				fires[name] = true
				checkShown(t, f)
			}
			slices.Sort(names)
			if !slices.Equal(names, s.want) {
				t.Errorf("after %s %q fire, want %q", s.after, names, s.want)
			}
			if s.says != "" && !strings.Contains(strings.Join(strings.Fields(fmt.Sprint(got)), " "), s.says) {
				t.Errorf("nothing says %q: %v", s.says, got)
			}
		})
		if len(s.want) == 0 {
			silent++
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] {
			t.Errorf("%s fires in no scenario", a.Alert)
		}
	}
	if silent < len(fires) {
		t.Errorf("%d scenarios in which nothing fires, for %d alerts", silent, len(fires))
	}
}

// checkShown: what somebody sees has a namespace, and no template that failed.
func checkShown(t *testing.T, f fired) {
	t.Helper()
	if got := f.labels.Get("namespace"); got != "mirrorset-guard" {
		t.Errorf("%s has namespace %q", f.labels, got)
	}
	for _, text := range []string{f.annotations.Get("summary"), f.annotations.Get("description")} {
		if text == "" || strings.Contains(text, "<error") || strings.Contains(text, "{{") || strings.Contains(text, "no value") {
			t.Errorf("%s shows %q", f.labels, text)
		}
	}
}
