package cluster

import "github.com/mirrorset-guard/mirrorset-guard/inventory/objects"

// Exposed returns the objects by which what runs on the cluster is reached from outside, sorted.
func (c *Inventory) Exposed() []objects.Exposed { return objects.Exposing(&c.kept) }

// ExposedUnread returns the resources whose objects could not be read, or not lately.
func (c *Inventory) ExposedUnread() []string {
	var unread []string
	for _, s := range c.sources {
		if status := s.Status(); s.role.Has(objects.Exposes) && (!status.Synced || status.IsForbidden() || status.IsBlind()) {
			unread = append(unread, s.Name)
		}
	}
	return unread
}
