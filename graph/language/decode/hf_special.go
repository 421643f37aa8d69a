package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"qwb/graph/language/checkpoint"
	"qwb/internal/file"
)

// tokenizerConfig is what is read of the tokenizer_config.json beside a tokenizer.json.
type tokenizerConfig struct {
	AddBOS   *bool           `json:"add_bos_token"`
	AddEOS   *bool           `json:"add_eos_token"`
	EOS      tokenName       `json:"eos_token"`
	Unknown  tokenName       `json:"unk_token"`
	Padding  tokenName       `json:"pad_token"`
	Template json.RawMessage `json:"chat_template"` // a text, or a list of texts with names
}

// tokenName is written as a text or as an object with its content; null is "".
type tokenName string

func (n *tokenName) UnmarshalJSON(b []byte) error {
	var long struct{ Content string }
	if json.Unmarshal(b, (*string)(n)) == nil {
		return nil
	}
	if err := json.Unmarshal(b, &long); err != nil {
		return fmt.Errorf("%.40s names no token", b)
	}
	*n = tokenName(long.Content)
	return nil
}

// beside reads a file of a tokenizer's folder, nil where there is none.
func beside(path, name string) ([]byte, error) {
	b, err := file.ReadFile(filepath.Join(filepath.Dir(path), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// ends fills in which tokens begin and end texts, whether they are put around a text, and the templates of chats: from
// tokenizer_config.json and chat_template.jinja beside the tokenizer, and where these are silent from its post-processor and config.json.
func (g *GGUFTokens) ends(t *BPE, m *checkpoint.Model, path string) error {
	var c tokenizerConfig
	b, err := beside(path, "tokenizer_config.json")
	if err == nil && b != nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return fmt.Errorf("tokenizer_config.json: %w", err)
	}
	id := func(key string, id int) { g.Metadata["tokenizer.ggml."+key+"_token_id"] = uint32(id) }
	id("bos", m.BOS)
	ends := slices.Clone(m.EOS)
	if e, ok := t.named(c.EOS); ok && !slices.Contains(ends, e) {
		ends = append([]int{e}, ends...)
	} else if ok {
		at := slices.Index(ends, e)
		ends[0], ends[at] = ends[at], ends[0]
	}
	for i, e := range ends {
		switch {
		case e < 0 || e >= m.Vocab:
			return fmt.Errorf("the token %d, which ends a text, is outside of the vocabulary of %d", e, m.Vocab)
		case i == 0:
			id("eos", e)
		case i == len(ends)-1:
			id("eot", e)
		}
	}
	if u, ok := t.named(c.Unknown); ok {
		id("unknown", u)
	}
	if p, ok := t.named(c.Padding); ok {
		id("padding", p)
	}
	g.Metadata["tokenizer.ggml.add_bos_token"] = pick(c.AddBOS, t.around[0] == m.BOS)
	g.Metadata["tokenizer.ggml.add_eos_token"] = pick(c.AddEOS, t.around[1] >= 0 && slices.Contains(m.EOS, t.around[1]))
	return g.templates(c.Template, path)
}

func pick(given *bool, otherwise bool) bool {
	if given != nil {
		return *given
	}
	return otherwise
}

// named finds the token that a file names.
func (t *BPE) named(n tokenName) (int, bool) {
	for _, a := range t.added {
		if a.Content == string(n) {
			return a.ID, true
		}
	}
	id, ok := t.ids[string(n)]
	return id, ok
}

// templates fills in how chats become text: one for all, or several with names.
func (g *GGUFTokens) templates(raw json.RawMessage, path string) error {
	const key = "tokenizer.chat_template"
	b, err := beside(path, "chat_template.jinja")
	if err != nil {
		return err
	}
	var one string
	var many []struct{ Name, Template string }
	switch {
	case b != nil:
		g.Metadata[key] = string(b)
		return nil
	case isNull(raw):
		return nil
	case json.Unmarshal(raw, &one) == nil:
		g.Metadata[key] = one
		return nil
	case json.Unmarshal(raw, &many) != nil:
		return errors.New("tokenizer_config.json: chat_template is neither a text nor a list of texts with names")
	}
	var names []string
	for _, t := range many {
		if t.Name == "default" {
			g.Metadata[key] = t.Template
			continue
		}
		names = append(names, t.Name)
		g.Metadata[key+"."+t.Name] = t.Template
	}
	if len(names) > 0 {
		g.Metadata[key+"s"] = names
	}
	return nil
}

// parseTemplate reads which tokens a post_processor puts in front of a text and behind it; -1 are none.
func (t *BPE) parseTemplate(raw json.RawMessage) error {
	if isNull(raw) {
		return nil
	}
	var p struct {
		Type       string
		Processors []json.RawMessage
		Single     []struct {
			Special *struct{ ID string } `json:"SpecialToken"`
		}
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return fmt.Errorf("post_processor: %w", err)
	}
	for _, r := range p.Processors {
		if err := t.parseTemplate(r); err != nil {
			return err
		}
	}
	if n := len(p.Single); p.Type == "TemplateProcessing" && n > 0 {
		for i, at := range []int{0, n - 1} {
			if s := p.Single[at].Special; s != nil {
				if id, ok := t.named(tokenName(s.ID)); ok {
					t.around[i] = id
				}
			}
		}
	}
	return nil
}
