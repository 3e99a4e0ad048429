package recent

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/mirrorset-guard/mirrorset-guard/internal/rawjson"
	"github.com/mirrorset-guard/mirrorset-guard/internal/strictjson"
	"github.com/mirrorset-guard/mirrorset-guard/policy/mirrors"
)

const (
	// maxEncoded leaves room for the other annotations of an object, which together may have
	// 256 KiB (TotalAnnotationSizeLimitB in k8s.io/apimachinery, pkg/api/validation/objectmeta.go).
	maxEncoded = 240 << 10
	// maxDecoded bounds the unpacked list: MaxEntries objects of 128 KiB, or one as large as an
	// API server accepts.
	maxDecoded = 8 << 20
	// maxValues bounds the JSON values of one entry, as it does for a review.
	maxValues = 100_000
	// format is the version of an encodedEntry.
	format = 1
)

// An encodedEntry is an entry in the list, which is a JSON array, packed with gzip and in base64.
// Without an edit it stands for one that is too large for the list.
type encodedEntry struct {
	Format   int           `json:"v"`
	ID       string        `json:"id"`
	By       string        `json:"by"`
	Claim    int           `json:"claim,omitempty"`
	Stranger bool          `json:"stranger,omitempty"`
	Edit     *mirrors.Edit `json:"edit,omitempty"`
	Seal     string        `json:"seal,omitempty"` // the last field: see Seals
}

// encode writes entries. Those that have no replica yet get instance as theirs; the
// last of these goes without its edit if there is no room for that.
func encode(entries []entry, instance string, seals *Seals) (string, error) {
	if slices.ContainsFunc(entries, func(en entry) bool { return en.wholeList }) {
		return "", fmt.Errorf("%w: the list cannot be read", ErrChanged)
	}
	text, err := pack(entries, instance, seals, true)
	if err == nil && len(text) > maxEncoded {
		text, err = pack(entries, instance, seals, false)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("writing the recent edits: %w", err)
	case len(text) > maxEncoded, len(entries) > MaxEntries:
		return "", fmt.Errorf("%w: %d", errFull, len(entries))
	}
	return text, nil
}

func pack(entries []entry, instance string, seals *Seals, whole bool) (string, error) {
	list := []json.RawMessage{}
	for i, en := range entries {
		raw := json.RawMessage(en.raw)
		if raw == nil {
			e := encodedEntry{Format: format, ID: en.id, By: instance, Claim: en.claim, Stranger: en.stranger}
			if whole || i < len(entries)-1 {
				e.Edit = &en.edit
			}
			var err error
			if raw, err = json.Marshal(e); err != nil {
				return "", err
			}
			raw = seals.seal(raw)
		}
		list = append(list, raw)
	}
	data, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	return zip(data)
}

func zip(data []byte) (string, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(data); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

// decode reads what encode wrote. Text that cannot be read becomes an unreadable entry with
// an id that depends on the text: it may be a list by another version
// of the guard, and must neither be taken for an empty one nor stay in the way for good.
//
// An entry that is among known is not read again: otherwise each review under way would have a copy
// of the edit.
func decode(text string, known []entry, seals *Seals) []entry {
	if text == "" {
		return nil
	}
	list, err := unpack(text)
	if err != nil {
		return []entry{{id: idOf([]byte(text)), unreadable: "the list: " + err.Error(), wholeList: true}}
	}
	var entries []entry
	for _, raw := range list {
		if i := slices.IndexFunc(known, func(en entry) bool { return bytes.Equal(en.raw, raw) }); i >= 0 {
			entries = append(entries, known[i])
			continue
		}
		entries = append(entries, decodeEntry(bytes.Clone(raw), seals)) // the rest of the list is not kept
	}
	return entries
}

// A decoder decodes lists, one at a time, and remembers the last one. Its results must not be changed.
// It is safe for concurrent use.
type decoder struct {
	mu      sync.Mutex
	text    string
	entries []entry
}

func (d *decoder) decode(text string, seals *Seals) []entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	if text != d.text {
		d.text, d.entries = text, slices.Clip(decode(text, d.entries, seals))
	}
	return d.entries
}

func unpack(text string) (list [][]byte, err error) {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxDecoded+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxDecoded:
		return nil, fmt.Errorf("more than %d bytes", maxDecoded)
	case !json.Valid(data) || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")):
		return nil, errors.New("it is not a list")
	}
	for raw := range rawjson.Elements(data) {
		if len(list) == MaxEntries {
			return nil, fmt.Errorf("more than %d entries", MaxEntries)
		}
		list = append(list, raw)
	}
	return list, nil
}

func decodeEntry(raw []byte, seals *Seals) entry {
	en := entry{raw: raw}
	var head struct {
		Format   int    `json:"v"`
		ID       string `json:"id"`
		By       string `json:"by"`
		Claim    int    `json:"claim"`
		Stranger bool   `json:"stranger"`
	}
	err := json.Unmarshal(raw, &head)
	switch {
	case err != nil:
		en.unreadable = err.Error()
	case head.Format != format:
		en.unreadable, en.newer = fmt.Sprintf("it has format %d, and this version of the guard reads %d", head.Format, format), head.Format > format
	case rawjson.Values(raw, maxValues+1) > maxValues:
		en.unreadable = "it holds more than is read"
	default:
		en.claim, en.stranger = head.Claim, head.Stranger
		err = en.decodeEdit()
		// A later version may know more fields of an object, or of an entry.
		en.newer, en.tooLarge = errors.Is(err, strictjson.ErrUnknownField), errors.Is(err, errTooLarge)
		if err != nil {
			en.unreadable = err.Error()
		}
	}
	if !en.newer && !seals.isSealed(raw) {
		en.unreadable, en.tooLarge = "no replica of the guard has written it", false
	}
	if en.id, en.by = head.ID, head.By; en.id == "" || len(en.id) > maxID || len(en.by) > maxID {
		en.id, en.by = idOf(raw), ""
	}
	return en
}

// errTooLarge says that an entry cannot be read, as the list had no room for it.
var errTooLarge = errors.New("it is too large to be shared")

// decodeEdit reads the edit of an entry. An edit must not be judged by half.
func (en *entry) decodeEdit() error {
	var e encodedEntry
	if err := strictjson.Unmarshal(en.raw, &e); err != nil {
		return err
	}
	if e.Edit == nil {
		return errTooLarge
	}
	en.edit = *e.Edit
	return nil
}

// maxID is more than an id has, or the name of a replica.
const maxID = 300

// idOf returns an id for data without a readable one.
func idOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
