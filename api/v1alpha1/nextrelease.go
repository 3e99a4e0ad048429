package v1alpha1

import "time"

// A NextRelease is the release that a cluster is to be updated to, as a guard in it judges it again and again.
type NextRelease struct {
	// Updates is the setting: desired or recommended.
	Updates string `json:"updates"`
	// Marked says by what the release was chosen: desired (spec.desiredUpdate of ClusterVersion) or recommended (the newest
	// of status.availableUpdates).
	Marked string `json:"marked,omitempty"`
	// Version is that of the release, if known.
	Version string `json:"version,omitempty"`
	// Verdict is READY, NOT READY or UNKNOWN. It is left out if no release is marked, or another replica judges it.
	Verdict string `json:"verdict,omitempty"`
	// Reason says why there is no verdict, or no review.
	Reason string `json:"reason,omitempty"`
	// Judged is when it was judged last.
	Judged *time.Time `json:"judged,omitempty"`
	// Review has each image, as the command release prints it.
	Review *ReleaseReview `json:"review,omitempty"`
}
