package cluster

import (
	"time"

	"github.com/mirrorset-guard/mirrorset-guard/internal/prom"
	"github.com/mirrorset-guard/mirrorset-guard/inventory/follow"
)

// Metrics returns those of the age and the size of an Inventory. Their labels are names of resources, a fixed
// set.
func (c *Inventory) Metrics() prom.Sources {
	ofSources := func(name, help string, value func(follow.Status) float64) prom.Source {
		return prom.Gauge("mirrorset_guard_inventory_"+name, help, func(give prom.Give) {
			for _, s := range c.Sources() {
				if name != sourceAge || !s.Heard.IsZero() {
					give(value(s), s.Name)
				}
			}
		}, "source")
	}
	return prom.Sources{
		ofSources(sourceAge, "Time since the source was last heard from: a list, an event, a sign of life. Missing before the first.",
			func(s follow.Status) float64 { return time.Since(s.Heard).Seconds() }),
		ofSources("source_synced", "1 once the source has been read to its end, or is known not to be served.",
			func(s follow.Status) float64 { return prom.Bool(s.Synced) }),
		ofSources("source_served", "0 if the cluster does not serve the source, or does not let it be read.",
			func(s follow.Status) float64 { return prom.Bool(s.Lacking == nil) }),
		ofSources("source_stale", "1 if the source has been out of reach for so long that changes are Unverified.",
			func(s follow.Status) float64 { return prom.Bool(s.Stale) }),
		prom.Gauge("mirrorset_guard_inventory_images", "Images that something in the cluster names.",
			func(give prom.Give) { give(float64(c.index.Images().Len())) }),
		prom.Gauge("mirrorset_guard_inventory_users", "Places in objects that name them.", func(give prom.Give) {
			consumers := 0
			for img := range c.index.Images().All() {
				consumers += len(img.Consumers)
			}
			give(float64(consumers))
		}),
	}
}

const sourceAge = "source_age_seconds"
