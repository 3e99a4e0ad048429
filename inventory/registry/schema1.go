package registry

import (
	"encoding/base64"
	"encoding/json"
)

// signedPayload returns the part of a signed schema 1 manifest that its digest is
// about. Such a manifest says where its signatures were put in, so that they can
// be taken out again (libtrust, jsonsign.go; containers/image manifest.Digest
// does the same).
func signedPayload(manifest []byte) ([]byte, bool) {
	var signed struct {
		SchemaVersion int `json:"schemaVersion"`
		Signatures    []struct {
			Protected string `json:"protected"`
		} `json:"signatures"`
	}
	if json.Unmarshal(manifest, &signed) != nil || signed.SchemaVersion != 1 || len(signed.Signatures) == 0 {
		return nil, false
	}
	var place struct {
		FormatLength int    `json:"formatLength"`
		FormatTail   string `json:"formatTail"`
	}
	protected, err := base64.RawURLEncoding.DecodeString(signed.Signatures[0].Protected)
	if err != nil || json.Unmarshal(protected, &place) != nil {
		return nil, false
	}
	tail, err := base64.RawURLEncoding.DecodeString(place.FormatTail)
	if err != nil || place.FormatLength < 0 || place.FormatLength > len(manifest) {
		return nil, false
	}
	return append(append([]byte(nil), manifest[:place.FormatLength]...), tail...), true
}
