package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// FolderFiles are the files of a folder of Hugging Face beside weights and config.json, which hold for the same model with other weights.
var FolderFiles = []string{"tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "added_tokens.json",
	"vocab.json", "merges.txt", "chat_template.jinja", "generation_config.json"}

// Home is the folder of a model that is one, "" of others.
func (m *Model) Home() string {
	if !m.Folder() {
		return ""
	}
	folder, _ := folderOf(m.Path)
	return folder
}

// FolderConfig is the config.json of a folder that holds the model's matrices by a quantizer's scheme: that of the model where it is such a
// folder, otherwise one for the shape c; with another quantization_config and the type of what is stored as floats. A shape that the file
// cannot say is an error.
func FolderConfig(m *Model, c *Config, quantization map[string]any, floats Type) ([]byte, error) {
	var text []byte
	var err error
	if i := slices.IndexFunc(m.files, func(s source) bool { return s.name == configFile }); m.Folder() && i >= 0 {
		text = m.files[i].mapping.Bytes
	} else if text, err = ShapeJSON(c); err != nil {
		return nil, err
	}
	h := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&h); err != nil {
		return nil, fmt.Errorf("%s: %w", configFile, err)
	}
	delete(h, "dtype")
	h["quantization_config"], h["torch_dtype"] = quantization, floats.String()
	b, err := json.MarshalIndent(h, "", "  ")
	return append(b, '\n'), err
}

// ParseConfig is the shape that a config.json says, with what it says of quantized weights checked.
func ParseConfig(b []byte) (Config, error) {
	c, h, err := parseHFConfig(b)
	if err == nil {
		_, err = h.quantization()
	}
	return c, err
}
