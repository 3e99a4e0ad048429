package strictjson_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/mirrorset-guard/mirrorset-guard/internal/strictjson"
)

// inner decodes itself strictly, as an edit does.
type inner struct{ Known string }

func (i *inner) UnmarshalJSON(data []byte) error {
	type plain inner
	return strictjson.Unmarshal(data, (*plain)(i))
}

func TestUnmarshal(t *testing.T) {
	for _, row := range []struct {
		text    string
		unknown bool
		wrong   bool
		reason  string
	}{
		{`{"known":"a","inner":{"known":"b"}}`, false, false, "all is known"},
		{`{"known":"a","later":{}}`, true, true, "a field that the type does not have"},
		{`{"inner":{"later":1}}`, true, true, "in a value that decodes itself"},
		{`{"known":1}`, false, true, "another type"},
		{`{"known":"a"} {}`, false, true, "a second value"},
		{`{"known":`, false, true, "it is cut off"},
	} {
		var o struct {
			Known string
			Inner inner
		}
		err := strictjson.Unmarshal([]byte(row.text), &o)
		if (err != nil) != row.wrong || errors.Is(err, strictjson.ErrUnknownField) != row.unknown {
			t.Errorf("%s: %v", row.reason, err)
		}
		if !row.wrong && !json.Valid([]byte(row.text)) {
			t.Errorf("%s: it is not JSON", row.reason)
		}
	}
}
