package reports

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"io"

	"qwb/analysis"
)

//go:embed verification.html.tmpl
var verificationTemplate string

// VerificationHTML writes a verification as one file that needs nothing else. The whole of it stands in the file as JSON too, in
// the element with id "verification". Names are escaped.
func VerificationHTML(w io.Writer, title string, v *analysis.Verification) error {
	t, err := template.New("verification").Funcs(template.FuncMap{"number": Number, "cosine": cosine, "exact": exact, "count": count,
		"shorten": shorten, "divergence": Divergence, "steps": Histogram, "plain": whole, "share": ShareText, "style": style, "script": script}).Parse(verificationTemplate)
	if err != nil {
		return err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return t.Execute(w, struct {
		*analysis.Verification
		Title string
		JSON  template.JS
	}{v, title, template.JS(data)})
}
