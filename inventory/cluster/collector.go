package cluster

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mirrorset-guard/mirrorset-guard/internal/register"
)

// A Collector exports the age and the size of an Inventory to Prometheus. Its labels are names of
// resources, a fixed set.
type Collector struct{ Inventory *Inventory }

func sourceDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("mirrorset_guard_inventory_"+name, help, []string{"source"}, nil)
}

var (
	ageDesc       = sourceDesc("source_age_seconds", "Time since the source was last heard from: a list, an event, a sign of life. Missing before the first.")
	syncedDesc    = sourceDesc("source_synced", "1 once the source has been read to its end, or is known not to be served.")
	servedDesc    = sourceDesc("source_served", "0 if the cluster does not serve the source, or does not let it be read.")
	staleDesc     = sourceDesc("source_stale", "1 if the source has been out of reach for so long that changes are Unverified.")
	imagesDesc    = prometheus.NewDesc("mirrorset_guard_inventory_images", "Images that something in the cluster names.", nil, nil)
	consumersDesc = prometheus.NewDesc("mirrorset_guard_inventory_users", "Places in objects that name them.", nil, nil)
)

// Describe implements prometheus.Collector.
func (Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ageDesc, syncedDesc, servedDesc, staleDesc, imagesDesc, consumersDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c Collector) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for _, s := range c.Inventory.Sources() {
		if !s.Heard.IsZero() {
			gauge(ageDesc, time.Since(s.Heard).Seconds(), s.Name)
		}
		gauge(syncedDesc, register.Bool(s.Synced), s.Name)
		gauge(servedDesc, register.Bool(s.Lacking == nil), s.Name)
		gauge(staleDesc, register.Bool(s.Stale), s.Name)
	}
	images := c.Inventory.index.Images()
	consumers := 0
	for img := range images.All() {
		consumers += len(img.Consumers)
	}
	gauge(imagesDesc, float64(images.Len()))
	gauge(consumersDesc, float64(consumers))
}
