package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/policy"
	"github.com/mirrorset-guard/mirrorset-guard/policy/rules"
	"github.com/mirrorset-guard/mirrorset-guard/test/golden"
	"github.com/mirrorset-guard/mirrorset-guard/test/scenarios"
)

const rulesFile = "docs/rules.md"

// An advice has the remedies of a rule, and other ways to weaken it, which nothing in the code says.
type advice struct{ do, weaken string }

var advices = map[string]advice{
	policy.RejectedByMCO:       {"Correct what the finding names, in this change or in the objects in force. Nothing else of a mirror configuration reaches nodes until that is done.", "With `warn`, a change is judged as if MCO applied it. A warning about what is in force already never becomes a denial: that would block the repair."},
	policy.RewriteError:        {"Change the source or the mirror so that the name of each image stays valid: a mirror host with a dot or a port, a path where the source has one, no mirror with a path for a registry with a port.", ""},
	policy.NoRoute:             {"Use AllowContactingSource, or take the registry out of the list that refuses it, as the finding says.", ""},
	policy.MirrorHidden:        {"Give the narrower source the mirror that the finding names, or leave it out.", ""},
	policy.SignatureMissing:    {"Copy the signatures as well, with the commands of the finding. They are images of their own, under tags `sha256-<hex>.sig`; `oc image mirror` leaves them behind.", ""},
	policy.SignatureRejected:   {"Copy the signatures from the source unchanged; for those that were made anew under the mirror's name, the policy needs RemapIdentity or another key, as the finding says.", ""},
	policy.SignatureUnreadable: {"Let nodes read the tags `sha256-*.sig` of the repository, with the global pull secret; or make the registry answer and try again.", ""},
	policy.NotFullySynced:      {"Finish the mirroring, with the commands of the finding, before the source is cut off. Until then use AllowContactingSource.", ""},
	policy.ContentMismatch:     {"Find out who has put something else in this place, and mirror the image again.", ""},
	policy.BlobsMissing:        {"Mirror the image again: its manifest is there, and some of what it names is not. A pruning job or an interrupted copy leaves mirrors so.", "`verifyBlobs: none` looks for no layers at all."},
	policy.ImageMissing:        {"Copy the image to the mirror, with the command of the finding.", "`allowSourceFallback: true` only warns as long as the source has the image and may be contacted: for a migration."},
	policy.CredentialsMissing:  {"Give the global pull secret (Secret `pull-secret` in `openshift-config`) an entry for the mirror. Pull secrets of pods and service accounts are never used for a mirror on another host.", ""},
	policy.Unverified:          {"Make the registry answer, then try again: answers that arrive late are kept. If the guard alone cannot reach it, see `--resolve`, `--registry-ca` and the proxy.", "What is found about the configuration as a whole is weakened by `Unverified@protected` only, as images that are not known may be protected."},
	policy.UnverifiedInFront:   {"As for Unverified. Nodes try this place first, and what it answers decides whether they go on.", ""},
	policy.PlatformMissing:     {"Copy the whole index (`skopeo copy --all`), not the part for one architecture.", ""},
	policy.BlockLifted:         {"If the block is to stay, use NeverContactSource in the narrower entry too.", ""},
	policy.AnotherImage:        {"Give the two sources different repositories at the mirror, or name the registry in the reference.", ""},
	policy.TagDrift:            {"Mirror the tag again, or pin the workload to the digest that runs. Whether the newer image is wanted is for its owner to say.", ""},
	policy.InventoryStale:      {"Restore what the finding names: the API server, the right to list the kind, or the part of a dump that cannot be read.", ""},
	policy.MalformedReference:  {"Correct the reference in the object that has it. It cannot be pulled today either.", "With `deny` no change is admitted while such a reference is in use."},
	policy.NoEffect:            {"Correct the source, or leave the entry out. For images that are pulled the other way, `mirrorset-guard check -o narrowed` prints the object that is missing.", ""},
	policy.BroadSource:         {"Consider the narrower sources that the finding lists; `mirrorset-guard check -o narrowed` prints the objects with them.", ""},
	policy.MirrorInCluster:     {"Mirror the mirror's own images elsewhere, or make sure that it is up on another node before each drain.", ""},
	policy.PinnedImageMissing:  {"Mirror the image, or take it out of the set. A set needs a label that a pool's machineConfigSelector asks for, images by digest, and at most 500 of them; a pool takes 100 sets.", "What a set has named before, for the same pool, is never in the way of a change to it."},
	policy.RolloutStalls:       {"Make the image pullable by its new route before nodes are drained, or give the budget room. `mirrorset-guard check --simulate` shows the rollout step by step.", ""},
	policy.DrainLosesPod:       {"Mirror the image again, or copy it back to where its route leads. It is lost today; the drain only makes it felt.", ""},
	policy.DrainBlocked:        {"Scale the workload up, or relax its budget for the time of the rollout. Leave a budget or a workload that has an owner to that.", ""},
	policy.RolloutBusy:         {"Wait for the rollout that is under way (`mirrorset-guard rollout watch`), or repair the pool first.", ""},
	policy.RescueMissing:       {"Copy the image to the mirror, with the command of the finding, or with `mirrorset-guard sync --rescue`. `mirrorset-guard inventory --rescue` lists all such images.", ""},
	policy.BuildFails:          {"Copy the image to the mirror, with the command of the finding, or start the build from another.", "Builds that nobody starts any more are found in BuildConfigs: delete those. With `deny`, a change waits for every image that a build names."},
	policy.ImportFails:         {"Copy the image to the mirror, with the command of the finding; or end the schedule (`importPolicy`). Imports use the secrets of the namespace, which the guard does not read: what a registry denies the guard is not known, and not said to be missing.", "Tags that are imported on demand only are judged as well, and not warned of."},
	policy.PullThroughFails:    {"Copy the image to the mirror, with the command of the finding. What the registry has fetched once it keeps, until it is pruned.", ""},
	policy.FollowedAtOnce:      {"Correct what RejectedByMCO names. Until then, what builds and imports find is no evidence of what nodes will.", "The warning never becomes a denial where MCO rejects the configuration in force already: that would block the repair."},
	policy.PoolPaused:          {"Unpause the pool when the change is to reach its nodes: `mirrorset-guard rollout resume POOL`.", ""},
}

// staleExample is for the rule that no story has: everything that a story names can be read.
const staleExample = `In a dump, an object cannot be read:

<!-- run: unread -->

` + "```" + `
$ mirrorset-guard check --from cluster.yaml -f shop.yaml
{output}
` + "```" + `
`

// TestRules: docs/rules.md is what the rules and the stories say; -update writes it.
func TestRules(t *testing.T) {
	want := rulesPage(t)
	path := filepath.Join(top, rulesFile)
	is, err := os.ReadFile(path)
	if err != nil && !*golden.Update {
		t.Fatal(err)
	}
	// What the example of a command shows is for TestBlocks.
	if match := staleOutput.FindStringSubmatch(string(is)); match != nil {
		want = strings.Replace(want, "{output}", match[1], 1)
	}
	golden.File(t, path, want)
}

var (
	staleOutput = regexp.MustCompile(`(?s)\$ mirrorset-guard check --from cluster.yaml -f shop.yaml\n(.*?)\n` + "```")
	remedy      = regexp.MustCompile(`(?m)^ *To do: .*\n`)
)

func rulesPage(t *testing.T) string {
	t.Helper()
	stories := storiesOf(t)
	var b strings.Builder
	b.WriteString(rulesIntroduction)
	for _, id := range rules.IDs() {
		text, a := rules.TextOf(id), advices[id]
		if a.do == "" {
			t.Errorf("%s: nothing says what to do", id)
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s. **Default:** %s.\n\n%s\n**What to do.** %s\n", id, capital(text.Says), text.Severity, exampleOf(t, id, stories), a.do)
		if a.weaken != "" {
			fmt.Fprintf(&b, "\n**To weaken it.** %s\n", a.weaken)
		}
	}
	return b.String()
}

const rulesIntroduction = `# Rules

What each rule says, an example, what to do, and how to weaken it. The rules down to PullThroughFails are tried for each image
in this order, and the first that denies is the one that is reported; the others are about the change as a whole, the last five
about its rollout. A denial becomes a warning if it is proved that the pull fails today as well, or if only history names the
image. How a verdict comes about: [design.md](design.md#one-review).

The examples are from stories, which hold at every way of asking the guard; the lines "To do:" that end each finding are left out.

<!-- run all: test/scenarios TestScenarios -->

Any rule is weakened so, and one that warns is silenced with ` + "`info`" + `. What is weakened is still reported:

` + "```yaml" + `
severities:
  ImageMissing: warn
  ImageMissing@protected: warn  # for images of protected namespaces too
` + "```" + `

Before a rule is weakened for all, consider an exemption for some images ([configuration.md](configuration.md)), a lesser severity
for some namespaces (` + "`namespaceSeverities`" + `), or an override of the one change ([break-glass.md](break-glass.md)).
`

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// storiesOf returns all stories in the order of their numbers.
func storiesOf(t *testing.T) []scenarios.Scenario {
	t.Helper()
	stories, err := scenarios.Load(filepath.Join(top, "test", "scenarios", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(stories, func(a, b scenarios.Scenario) int { return number(a) - number(b) })
	return stories
}

func number(s scenarios.Scenario) int {
	digits, _, _ := strings.Cut(s.Name, "_")
	n, _ := strconv.Atoi(digits)
	return n
}

// exampleOf returns what the first story with a finding of a rule says of it: best a denial.
func exampleOf(t *testing.T, id string, stories []scenarios.Scenario) string {
	t.Helper()
	if id == policy.InventoryStale {
		return staleExample
	}
	patterns := []*regexp.Regexp{
		regexp.MustCompile(`(?m)^\d+\. .*\n(?:   .*\n)*?   ` + id + `: .*\n(?:   .*\n)*`),
		regexp.MustCompile(`(?m)^- ` + id + `: .*\n(?:To do: .*\n)*`),
		regexp.MustCompile(`(?m)^Warning: ` + id + `: .*\n`),
	}
	for _, pattern := range patterns {
		for _, s := range stories {
			// Settings of the guard would be a part of the example.
			if found := pattern.FindString(s.Want); found != "" && s.Guard == "" {
				file := fmt.Sprintf("test/scenarios/testdata/%s.txtar", s.Name)
				return fmt.Sprintf("[%s](../%s):\n\n```\n%s```\n", capital(strings.ReplaceAll(strings.TrimLeft(s.Name, "0123456789_"), "_", " ")), file, remedy.ReplaceAllString(found, ""))
			}
		}
	}
	t.Errorf("%s: no story has it", id)
	return ""
}
