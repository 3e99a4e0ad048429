package cluster

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
)

func TestCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newFlakyAPI(runningPod("a", "quay.io/a:1"), runningPod("b", "quay.io/a:1"))
		c := newInventory(mirrorReader{}, api, noCustom(), Options{})
		if err := testutil.CollectAndCompare(c.Metrics(), strings.NewReader(`
# HELP mirrorset_guard_inventory_images Images that something in the cluster names.
# TYPE mirrorset_guard_inventory_images gauge
mirrorset_guard_inventory_images 0
`), "mirrorset_guard_inventory_images", "mirrorset_guard_inventory_source_age_seconds"); err != nil {
			t.Errorf("before it has run, nothing has an age: %v", err)
		}
		run(t, c)
		synctest.Wait()
		api.cut.Store(true)
		(<-api.watches).Stop()
		time.Sleep(150 * time.Second)
		c.sources = c.sources[:2] // pods and replicationcontrollers
		absent := &follow.Source{
			Name: "replicationcontrollers", Client: follow.Custom(noCustom(), poolResource), IsAnswer: follow.NotServedOrForbidden, Sink: new(follow.Table[any]),
		}
		c.sources[1] = &source{Source: absent}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go absent.Run(ctx, logr.Discard())
		synctest.Wait()
		const want = `
# HELP mirrorset_guard_inventory_images Images that something in the cluster names.
# TYPE mirrorset_guard_inventory_images gauge
mirrorset_guard_inventory_images 1
# HELP mirrorset_guard_inventory_source_age_seconds Time since the source was last heard from: a list, an event, a sign of life. Missing before the first.
# TYPE mirrorset_guard_inventory_source_age_seconds gauge
mirrorset_guard_inventory_source_age_seconds{source="pods"} 150
mirrorset_guard_inventory_source_age_seconds{source="replicationcontrollers"} 0
# HELP mirrorset_guard_inventory_source_served 0 if the cluster does not serve the source, or does not let it be read.
# TYPE mirrorset_guard_inventory_source_served gauge
mirrorset_guard_inventory_source_served{source="pods"} 1
mirrorset_guard_inventory_source_served{source="replicationcontrollers"} 0
# HELP mirrorset_guard_inventory_source_stale 1 if the source has been out of reach for so long that changes are Unverified.
# TYPE mirrorset_guard_inventory_source_stale gauge
mirrorset_guard_inventory_source_stale{source="pods"} 1
mirrorset_guard_inventory_source_stale{source="replicationcontrollers"} 0
# HELP mirrorset_guard_inventory_source_synced 1 once the source has been read to its end, or is known not to be served.
# TYPE mirrorset_guard_inventory_source_synced gauge
mirrorset_guard_inventory_source_synced{source="pods"} 1
mirrorset_guard_inventory_source_synced{source="replicationcontrollers"} 1
# HELP mirrorset_guard_inventory_users Places in objects that name them.
# TYPE mirrorset_guard_inventory_users gauge
mirrorset_guard_inventory_users 2
`
		if err := testutil.CollectAndCompare(c.Metrics(), strings.NewReader(want)); err != nil {
			t.Error(err)
		}
		if problems, err := testutil.CollectAndLint(c.Metrics()); err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
	})
}
