package dashboard

// Colours.
const (
	green  = "green"
	orange = "orange"
	red    = "red"
)

// Steps by which many numbers are coloured.
var (
	noneIsGood  = []step{{0, green}, {1, red}}
	noneIsUsual = []step{{0, green}, {1, orange}}
)

// rows returns the whole dashboard. Where a metric is only of the replica that leads, or the same
// in all, the largest value counts.
func rows() []row {
	return []row{now(), mirrors(), reviews(), rollouts(), inventory(), process()}
}

func now() row {
	return row{"Now", []panel{
		{
			title: "Replicas ready", kind: number, width: 2, unit: count, steps: []step{{0, red}, {1, orange}, {2, green}},
			queries: []query{{expr: `count(mirrorset_guard_ready == 1) or vector(0)`}},
		},
		{
			title: "Images held by mirrors", kind: number, width: 2, unit: count, words: unverified,
			queries: []query{{expr: `max(mirrorset_guard_standing_images{state="held"})`}},
		},
		{
			title: "Images lost by mirrors", kind: number, width: 2, unit: count, words: unverified, steps: noneIsGood,
			queries: []query{{expr: `max(mirrorset_guard_standing_images{state="lost"})`}},
		},
		{
			title: "Images not verified", kind: number, width: 2, unit: count, words: unverified, steps: noneIsUsual,
			queries: []query{{expr: `max(mirrorset_guard_standing_images{state="unverified"})`}},
		},
		{
			title: "Registries out of reach", kind: number, width: 2, unit: count, steps: noneIsGood,
			queries: []query{{expr: `max(mirrorset_guard_standing_registries{state="unreachable"})`}},
		},
		{
			title: "MCO and the configuration", kind: number, width: 2, unit: count, steps: noneIsGood,
			words:   append([]word{{"0", "accepted"}, {"1", "rejected"}}, unverified...),
			queries: []query{{expr: `max(mirrorset_guard_standing_findings{rule="RejectedByMCO"}) > bool 0`}},
		},
	}}
}

// unverified is shown while no replica verifies the configuration in force.
var unverified = []word{{"null", "not verified"}}

func mirrors() row {
	return row{"Mirrors, as verified again and again", []panel{
		{
			title: "Images by state", width: 6, unit: count, stacked: true,
			queries: []query{{expr: `max by (state) (mirrorset_guard_standing_images)`, legend: "{{state}}"}},
		},
		{
			title: "Registries that are mirrors", width: 6, unit: count, stacked: true,
			queries: []query{{expr: `max by (state) (mirrorset_guard_standing_registries)`, legend: "{{state}}"}},
		},
		{
			title: "What is wrong with the configuration in force", kind: table, width: 4, unit: count, columns: []field{{"rule", "Rule"}},
			queries: []query{{expr: `max by (rule) (mirrorset_guard_standing_findings) > 0`, legend: "Findings"}},
		},
		{
			title: "What is known of the places it rests on", width: 4, unit: count, stacked: true,
			queries: []query{{expr: `max by (presence) (mirrorset_guard_standing_facts)`, legend: "{{presence}}"}},
		},
		{
			title: "Age of the oldest fact", width: 4, unit: seconds,
			queries: []query{{expr: `max by (pod) (mirrorset_guard_standing_oldest_fact_age_seconds)`, legend: "{{pod}}"}},
		},
	}}
}

func reviews() row {
	return row{"Reviews of changes", []panel{
		{
			title: "Reviews in an hour, by verdict", width: 6, unit: count, stacked: true,
			queries: []query{{expr: `sum by (verdict) (increase(mirrorset_guard_reviews_total[1h]))`, legend: "{{verdict}}"}},
		},
		{
			title: "What could not be reviewed in an hour", width: 6, unit: count, stacked: true,
			queries: []query{
				{expr: `sum by (reason) (increase(mirrorset_guard_requests_refused_total[1h])) > 0`, legend: "refused by the guard: {{reason}}"},
				{expr: `sum(increase(apiserver_admission_webhook_rejection_count{name="mirrorsets.mirrorset-guard.io", error_type!="no_error"}[1h]))`, legend: "refused by an API server that could not call it"},
				{expr: `sum(increase(apiserver_admission_webhook_fail_open_count{name="mirrorset-deletions.mirrorset-guard.io"}[1h]))`, legend: "deletions admitted without it"},
			},
		},
		{
			title: "Time to an answer, over an hour", width: 6, unit: seconds,
			queries: []query{
				{expr: `histogram_quantile(0.5, sum by (le) (increase(mirrorset_guard_review_duration_seconds_bucket[1h])))`, legend: "half of them"},
				{expr: `histogram_quantile(0.99, sum by (le) (increase(mirrorset_guard_review_duration_seconds_bucket[1h])))`, legend: "99 %"},
			},
		},
		{
			title: "Part of the time until the deadline, over an hour", width: 6, unit: share,
			queries: []query{
				{expr: `histogram_quantile(0.5, sum by (le) (increase(mirrorset_guard_review_deadline_ratio_bucket[1h])))`, legend: "half of them"},
				{expr: `histogram_quantile(0.99, sum by (le) (increase(mirrorset_guard_review_deadline_ratio_bucket[1h])))`, legend: "99 %"},
			},
		},
	}}
}

func rollouts() row {
	return row{"Rollouts of mirror changes", []panel{
		{
			title: "Nodes by state", width: 6, unit: count, stacked: true,
			queries: []query{{expr: `sum by (state) (max by (pool, state) (mirrorset_guard_rollout_nodes))`, legend: "{{state}}"}},
		},
		{
			title: "Pools", kind: table, width: 6, unit: count, columns: []field{{"pool", "Pool"}},
			queries: []query{
				{expr: `max by (pool) (mirrorset_guard_rollout_active)`, legend: "Under way"},
				{expr: `max by (pool) (mirrorset_guard_rollout_stalled)`, legend: "Stands still"},
				{expr: `max by (pool) (mirrorset_guard_rollout_unmoved_seconds)`, legend: "Since", unit: seconds},
			},
		},
	}}
}

func inventory() row {
	return row{"Inventory", []panel{
		{
			title: "Images that the cluster names", width: 6, unit: count,
			queries: []query{
				{expr: `max(mirrorset_guard_inventory_images)`, legend: "images"},
				{expr: `max(mirrorset_guard_inventory_users)`, legend: "places that name them"},
			},
		},
		{
			title: "Sources", kind: table, width: 6, unit: count, columns: []field{{"source", "Source"}},
			queries: []query{
				{expr: `max by (source) (mirrorset_guard_inventory_source_stale)`, legend: "Stale"},
				{expr: `min by (source) (mirrorset_guard_inventory_source_synced)`, legend: "Read"},
				{expr: `min by (source) (mirrorset_guard_inventory_source_served)`, legend: "Served"},
				{expr: `max by (source) (mirrorset_guard_inventory_source_age_seconds)`, legend: "Last heard from", unit: seconds},
			},
		},
	}}
}

func process() row {
	return row{"Process", []panel{
		{
			title: "Memory", width: 3, unit: size,
			queries: []query{{expr: `max by (pod) (process_resident_memory_bytes{namespace="mirrorset-guard"})`, legend: "{{pod}}"}},
		},
		{
			title: "Processors used", width: 3, unit: count,
			queries: []query{{expr: `max by (pod) (rate(process_cpu_seconds_total{namespace="mirrorset-guard"}[5m]))`, legend: "{{pod}}"}},
		},
		{
			title: "Replicas", kind: table, width: 6, unit: count, columns: []field{{"pod", "Pod"}},
			queries: []query{
				{expr: `max by (pod) (mirrorset_guard_ready)`, legend: "Ready"},
				{expr: `max by (pod) (mirrorset_guard_standing_verifying)`, legend: "Verifies"},
				{expr: `max by (pod) (mirrorset_guard_config_last_reload_successful)`, legend: "Configuration in force"},
				{expr: `max by (pod) (mirrorset_guard_certificate_verified)`, legend: "Certificate accepted"},
				{expr: `max by (pod) (mirrorset_guard_recent_edits_shared)`, legend: "Shares its changes"},
				{expr: `max by (pod) (mirrorset_guard_certificate_expiry_timestamp_seconds) - time()`, legend: "It expires in", unit: seconds},
			},
		},
	}}
}
