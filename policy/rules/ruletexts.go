package rules

import "github.com/mirrorset-guard/mirrorset-guard/policy"

// A Text says what a rule objects to.
type Text struct {
	// Severity is the default in words ("deny, or warn if the image is still found").
	Severity string
	// Says is the objection, a clause.
	Says string
}

// TextOf returns the text of a rule; the zero RuleText if there is no such rule.
func TextOf(rule string) Text { return ruleTexts[rule] }

// ruleTexts has every rule; docs/rules.md is made from it.
var ruleTexts = map[string]Text{
	policy.RejectedByMCO: {
		"deny what the change adds, warn about what is there already",
		"the merged set is invalid, image policies included, and MCO would stop applying every later mirror change; or it is too large for a MachineConfig",
	},
	policy.RescueMissing: {
		"warn",
		"an image that nothing runs until something is wrong, as must-gather, is not verified on its new route",
	},
	policy.BuildFails: {
		"warn",
		"builds pull an image that is not verified on the route that they take as soon as the change is stored",
	},
	policy.ImportFails: {
		"warn",
		"a scheduled import of an ImageStream's tag asks for an image that is not verified on its new route; the tag keeps what it stands for. Or allowedRegistriesForImport no longer allows its registry",
	},
	policy.PullThroughFails: {
		"warn",
		"the integrated registry fetches an image for pods unless it has it already, and that is not verified on its new route",
	},
	policy.FollowedAtOnce: {
		"warn",
		"MCO rejects the merged configuration, so that nodes keep theirs, while builds, imports and the integrated registry follow the objects all the same",
	},
	policy.RewriteError: {
		"deny",
		"the new route cannot be computed; not even the source is asked",
	},
	policy.NoRoute: {
		"deny",
		"every place on the new route is blocked",
	},
	policy.MirrorHidden: {
		"deny, or warn if the image is still found",
		"a narrower entry takes a wider entry's mirror away",
	},
	policy.SignatureMissing: {
		"deny",
		"the place from which nodes would take the image has none of the signatures that an image policy requires",
	},
	policy.SignatureRejected: {
		"deny",
		"there are signatures, and nodes accept none of them: key, identity, type or digest; or something else stands in their place",
	},
	policy.SignatureUnreadable: {
		"deny, or warn if only the root is not verified here",
		"nodes look for signatures there, and may not read them; or it could not be determined what they find",
	},
	policy.NotFullySynced: {
		"deny",
		"the source may not be contacted, and no mirror is verified to hold the image",
	},
	policy.ContentMismatch: {
		"deny",
		"a place answers with something other than the image, and nodes would stop there",
	},
	policy.BlobsMissing: {
		"deny",
		"the manifest is there, its config or layers are not, and nodes would stop there",
	},
	policy.ImageMissing: {
		"deny",
		"no mirror on the new route holds the image, or no place at all does",
	},
	policy.CredentialsMissing: {
		"deny",
		"no mirror on the new route lets nodes in with their global pull secret",
	},
	policy.Unverified: {
		"deny",
		"whether the pull works could not be determined",
	},
	policy.UnverifiedInFront: {
		"warn, or deny for protected images",
		"a place before the one that has the image could not be asked",
	},
	policy.PlatformMissing: {
		"deny",
		"the copy lacks the part, or layers of it, for a platform that nodes have; or, under a tag, is not for a platform that the old place serves",
	},
	policy.InventoryStale: {
		"deny",
		"the inventory is out of date; weakened only by `InventoryStale@protected`, as images that are not known may be protected",
	},
	policy.BlockLifted: {
		"warn",
		"a narrower entry lifts a wider NeverContactSource",
	},
	policy.AnotherImage: {
		"deny",
		"the tag stands for another image there than the one that runs: two sources meet at the mirror, a wildcard leads all hosts to one repository, or a registry that nodes are to search first has an image of that name; a warning where no digest that runs is known",
	},
	policy.TagDrift: {
		"warn",
		"the tag names a different image there than the one that runs",
	},
	policy.NoEffect: {
		"warn",
		"an entry or an object that does nothing: it can never match, serves tags where images in use are pulled by digest, or digests where they are pulled by tag, or has a name that images in use have elsewhere; or an image policy that requires nothing of any image in use: nothing is below its scopes, they are names of mirrors, or others go before them",
	},
	policy.BroadSource: {
		"warn",
		"how much an entry for a whole registry covers, and which narrower sources would do",
	},
	policy.MirrorInCluster: {
		"warn",
		"the mirror runs on the very cluster that is about to drain",
	},
	policy.MalformedReference: {
		"warn",
		"no node can parse the reference, whatever the mirrors",
	},
	policy.PinnedImageMissing: {
		"deny, or warn about a set that no pool takes",
		"a PinnedImageSet names an image that the route of its nodes does not serve, so that all of them fail to hold the set; or MCO cannot give them the set, which may be too large",
	},
	policy.RolloutStalls: {
		"deny, or warn if the new route of the image works",
		"the rollout may stall, once its pools go on: a drain would wait for a pod that cannot pull its image where the scheduler may put it; where budgets could not be read, or time was up, any evicted pod may be that pod unless its image can be pulled",
	},
	policy.DrainLosesPod: {
		"deny if the image is protected, else warn",
		"a drain evicts a pod whose image the change leaves on its route, and it is proven that nodes cannot pull it there any more",
	},
	policy.DrainBlocked: {
		"warn",
		"drains wait for a budget without room, or for one of a pod that can run nowhere else, whatever the images",
	},
	policy.RolloutBusy: {
		"warn",
		"MCO is in the middle of another rollout, a pool is degraded, or machine-config is not available",
	},
	policy.PoolPaused: {
		"warn",
		"a pool is paused: since when, what waits there, and until when its nodes can do without new certificates",
	},
}
