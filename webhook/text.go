package webhook

import "github.com/mirrorset-guard/mirrorset-guard/internal/text"

// The API server's limits for warnings (k8s.io/apiserver,
// pkg/endpoints/filters/warning.go): beyond 4,096 runes in total it cuts each to 256 and drops the
// rest. So many warnings, cut to that length, never get there.
const (
	maxWarningRunes = 256
	maxWarningTotal = 4096
	maxWarnings     = maxWarningTotal / maxWarningRunes
)

// warnings prepares lines so that the API server delivers them: each becomes one line of limited
// length, and if there are too many, the last one counts the rest. The API server drops a
// warning that contains a control character (NewWarningHeader in k8s.io/apimachinery,
// pkg/util/net/http.go).
func warnings(lines []string) []string {
	var out []string
	for _, line := range lines {
		if line = text.Cut(text.Line(line), maxWarningRunes); line != "" {
			out = append(out, line)
		}
	}
	if len(out) <= maxWarnings {
		return out
	}
	return text.First(out, maxWarnings-1, "warning")
}
