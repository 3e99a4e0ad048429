package v1alpha1

import "time"

// A SyncEvent is something that has happened while images are copied to mirrors (kind SyncEvent). A type may be
// added. After the last one comes the Review of the change.
type SyncEvent struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Time is by the clock of the machine that copies.
	Time time.Time `json:"time"`
	// Type is "Planned" for what all events together are to come to, "Started", "Copied", "Present" (the mirror had all
	// of it), "Failed" or "Skipped" of an image, "Progress" from time to time, and "Ended".
	Type string `json:"type"`
	// Image is the reference that is in use, Rule the objection that a copy meets, From the places that hold it,
	// To the place it is copied to, and Digest its digest.
	Image  string   `json:"image,omitempty"`
	Rule   string   `json:"rule,omitempty"`
	From   []string `json:"from,omitempty"`
	To     string   `json:"to,omitempty"`
	Digest string   `json:"digest,omitempty"`
	// Message says why it has "Failed" or was "Skipped"; Notes are remarks on what was copied.
	Message string   `json:"message,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	// Bytes is how many there are to be sent, of the image or, without one, of all. Sent is how many were.
	Bytes int64 `json:"bytes,omitempty"`
	Sent  int64 `json:"sent,omitempty"`
	// Images is how many there are to be copied, Done how many of them were, and Failed how many cannot be.
	Images int `json:"images,omitempty"`
	Done   int `json:"done,omitempty"`
	Failed int `json:"failed,omitempty"`
	// Registries count the planned transfers to each mirror, in Planned.
	Registries []SyncRegistry `json:"registries,omitempty"`
}

// A SyncRegistry counts the images and bytes to be sent to one registry, without those that it has.
type SyncRegistry struct {
	Registry string `json:"registry"`
	Images   int    `json:"images"`
	Bytes    int64  `json:"bytes"`
}
