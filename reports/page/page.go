// Package page has the pages that qwb shows in a browser: modules of plain JavaScript and one style sheet, written by hand and shipped as
// they are. A server hands them out as files; a report has them inside, as one script.
//
// Unstable: it may change without notice.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

//go:generate go run qwb/internal/workbench/pagetypes

//go:embed *.js *.css *.html *.svg views/*.js
var files embed.FS

// Files are the modules, with names as they import each other, the style sheets, and index.html, the page of qwb serve.
func Files() fs.FS { return files }

var (
	importLine = regexp.MustCompile(`(?m)^import \{\s*([\w$,\s]+?)\s*\} from "([^"]+)";\n`)
	exportWord = regexp.MustCompile(`(?m)^export ((?:async )?function\*? |const |class )([\w$]+)`)
	foreign    = regexp.MustCompile(`(?m)^(import\b|export\b).*$|import\.meta|\bimport\(`)
)

// Bundle makes one classic script of a module and of all that it imports, each in a scope of its own. Modules keep to a part of the
// language: imports have names in braces, what is exported is a function, a class or a const, nothing is imported in a circle.
func Bundle(entry string) ([]byte, error) {
	b := bundler{scope: map[string]string{}}
	if err := b.add(entry, nil); err != nil {
		return nil, err
	}
	return []byte("\"use strict\";\n(() => {\n" + b.out.String() + "})();\n"), nil
}

type bundler struct {
	out   strings.Builder
	scope map[string]string // the constant that holds what a module exports
}

func (b *bundler) add(name string, by []string) error {
	if b.scope[name] != "" {
		return nil
	}
	for _, above := range by {
		if above == name {
			return fmt.Errorf("%s: imported in a circle", strings.Join(append(by, name), " > "))
		}
	}
	src, err := fs.ReadFile(files, name)
	if err != nil {
		return err
	}
	text := string(src)
	for _, m := range importLine.FindAllStringSubmatch(text, -1) {
		if err := b.add(path.Join(path.Dir(name), m[2]), append(by, name)); err != nil {
			return err
		}
	}
	text = importLine.ReplaceAllStringFunc(text, func(line string) string {
		m := importLine.FindStringSubmatch(line)
		return "const {" + strings.ReplaceAll(m[1], " as ", ": ") + "} = " + b.scope[path.Join(path.Dir(name), m[2])] + ";\n"
	})
	var names []string
	for _, m := range exportWord.FindAllStringSubmatch(text, -1) {
		names = append(names, m[2])
	}
	text = exportWord.ReplaceAllString(text, "$1$2")
	if m := foreign.FindString(text); m != "" {
		return fmt.Errorf("%s: %q cannot be bundled", name, m)
	}
	b.scope[name] = fmt.Sprintf("$%d", len(b.scope))
	fmt.Fprintf(&b.out, "const %s = (() => { // %s\n%sreturn {%s};\n})();\n", b.scope[name], name, text, strings.Join(names, ", "))
	return nil
}

// Document is a page in one file.
type Document struct {
	Title  string
	Entry  string   // the module that draws it
	Styles []string // more style sheets than page.css
	Data   []Data
	// Scripts are sources of code that the content security policy allows beside the one script, which it allows by its hash. Policy has
	// directives beside those for scripts and styles.
	Scripts, Policy string
}

// Data is a value that a page finds in the element of this id.
type Data struct {
	ID   string
	JSON []byte // with <, > and & escaped, as json.Marshal does it
}

// Write writes the page. It needs no other file, and the policy in it forbids it any.
func (d *Document) Write(w io.Writer) error {
	script, err := Bundle(d.Entry)
	if err != nil {
		return err
	}
	var style []byte
	for _, name := range append([]string{"page.css"}, d.Styles...) {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		style = append(style, text...)
	}
	policy := "default-src 'none'; img-src data:; style-src " + hashed(style) + "; script-src " +
		strings.TrimSpace(hashed(script)+" "+d.Scripts) + "; base-uri 'none'; form-action 'none'"
	if d.Policy != "" {
		policy += "; " + d.Policy
	}
	p := printer{w: w}
	p.put(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="`, html.EscapeString(policy), `">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>`, html.EscapeString(d.Title), "</title>\n<style>", string(style), "</style>\n</head>\n<body>\n<noscript><p>This page draws itself with JavaScript, which is switched off.</p></noscript>\n")
	for _, x := range d.Data {
		p.put(`<script type="application/json" id="`, html.EscapeString(x.ID), `">`, string(x.JSON), "</script>\n")
	}
	p.put("<script>", string(script), "</script>\n</body>\n</html>\n")
	return p.err
}

// hashed is how a policy allows one text.
func hashed(text []byte) string {
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) put(texts ...string) {
	for _, t := range texts {
		if p.err == nil {
			_, p.err = io.WriteString(p.w, t)
		}
	}
}
