package reports

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"

	"qwb/internal/strictjson"
)

// BOM is a bill of materials in CycloneDX 1.6 (ECMA-424), JSON: what a component is made of. It has no time, and its serial number follows
// from the content: the same materials give the same bytes.
type BOM struct {
	Tool       BOMComponent // what wrote it; none without a name
	Component  BOMComponent // what it is of
	Components []BOMComponent
}

// BOMComponent is a component of CycloneDX. Ref is its name within the bill, which may be empty.
type BOMComponent struct {
	Type       string        `json:"type"`
	Ref        string        `json:"bom-ref,omitempty"`
	Name       string        `json:"name"`
	Version    string        `json:"version,omitempty"`
	Hashes     []bomHash     `json:"hashes,omitempty"`
	PURL       string        `json:"purl,omitempty"` // package URL
	Pedigree   *bomPedigree  `json:"pedigree,omitempty"`
	Properties []bomProperty `json:"properties,omitempty"`
	ModelCard  *bomModelCard `json:"modelCard,omitempty"`
	Data       []bomData     `json:"data,omitempty"`
}

type (
	bomHash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	bomProperty struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	bomPedigree struct {
		Ancestors []BOMComponent `json:"ancestors"`
		Notes     string         `json:"notes,omitempty"`
	}
	bomRef struct {
		Ref string `json:"ref"`
	}
	bomFormat struct {
		Format string `json:"format"`
	}
	bomData struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	bomModelCard struct {
		Parameters struct {
			Datasets []bomRef    `json:"datasets"`
			Inputs   []bomFormat `json:"inputs"`
			Outputs  []bomFormat `json:"outputs"`
		} `json:"modelParameters"`
		Analysis struct {
			Metrics []bomMetric `json:"performanceMetrics,omitempty"`
		} `json:"quantitativeAnalysis"`
	}
	bomMetric struct {
		Type     string       `json:"type"`
		Value    string       `json:"value"`
		Slice    string       `json:"slice"`
		Interval *bomInterval `json:"confidenceInterval,omitempty"`
	}
	bomInterval struct {
		Lower string `json:"lowerBound"`
		Upper string `json:"upperBound"`
	}
	bomMetadata struct {
		Tools     *bomTools    `json:"tools,omitempty"`
		Component BOMComponent `json:"component"`
	}
	bomTools struct {
		Components []BOMComponent `json:"components"`
	}
	bomDependency struct {
		Ref  string   `json:"ref"`
		Uses []string `json:"dependsOn"`
	}
	bomFile struct {
		Format       string          `json:"bomFormat"`
		Spec         string          `json:"specVersion"`
		Serial       string          `json:"serialNumber,omitempty"`
		Version      int             `json:"version"`
		Metadata     bomMetadata     `json:"metadata"`
		Components   []BOMComponent  `json:"components"`
		Dependencies []bomDependency `json:"dependencies"`
	}
)

// property adds one of ours, unless it is empty.
func (c *BOMComponent) property(name, value string) {
	if value != "" {
		c.Properties = append(c.Properties, bomProperty{"qwb:" + name, value})
	}
}

func sha256Of(hexadecimal string) []bomHash { return []bomHash{{"SHA-256", hexadecimal}} }

// Hashed is the component with its SHA-256 in hexadecimal.
func (c BOMComponent) Hashed(sha256 string) BOMComponent {
	c.Hashes = sha256Of(sha256)
	return c
}

// Write writes the bill.
func (b *BOM) Write(w io.Writer) error {
	f := bomFile{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: bomMetadata{Component: b.Component}, Components: b.Components,
		Dependencies: []bomDependency{{Ref: b.Component.Ref, Uses: []string{}}}}
	if b.Tool.Name != "" {
		f.Metadata.Tools = &bomTools{[]BOMComponent{b.Tool}}
	}
	for _, c := range b.Components {
		f.Dependencies[0].Uses = append(f.Dependencies[0].Uses, c.Ref)
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	s := sha256.Sum256(text)
	s[6], s[8] = s[6]&0x0f|0x80, s[8]&0x3f|0x80 // a UUID of version 8 (RFC 9562): of one's own making
	f.Serial = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", s[:4], s[4:6], s[6:8], s[8:10], s[10:16])
	if text, err = strictjson.Indented(f); err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
