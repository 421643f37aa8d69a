package certify

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"qwb/export"
	"qwb/internal/work/fault"
	"qwb/internal/work/planning"
	"qwb/internal/work/store"
	"qwb/quantizer/overlay"
	"qwb/quantizer/plan"
)

// gone is the error of a file that is not there.
func gone(what, name, flag string, err error) error {
	return fmt.Errorf("the certificate's %s is not there: %s (%s names another place, --root the folder that all paths are relative to): %w",
		what, name, flag, err)
}

// bytesAt reads a file of the certificate.
func (r *recheck) bytesAt(what, name, flag string) ([]byte, error) {
	b, err := fs.ReadFile(r.Files(), name)
	if store.Missing(err) {
		return nil, gone(what, name, flag, fs.ErrNotExist)
	}
	return b, err
}

// files compares all files with their hashes. same says that nothing differs that figures follow from.
func (r *recheck) files() (same bool, err error) {
	same = true
	digest := func(what, name, flag, recorded string) error {
		if _, err := fs.Stat(r.Files(), name); store.Missing(err) {
			return gone(what, name, flag, fs.ErrNotExist)
		}
		m, err := r.OpenModel(name)
		if err != nil { // it could be read when the certificate was made
			r.say(what+" "+name, RecheckDifferent, recorded, "", "it cannot be read any more: "+fault.OneLine(err))
			same = false
			return nil
		}
		defer m.Close()
		same = r.same(what+" "+name, recorded, m.Digest, "") && same
		return nil
	}
	if err := digest("model", r.modelFile(), "--model", r.c.Model.SHA256); err != nil {
		return false, err
	}
	if i := r.c.Imported; i != nil {
		if err := digest("imported model", r.at(i.Path), "--root", i.SHA256); err != nil {
			return false, err
		}
	}
	ok, err := r.plan()
	if err != nil {
		return false, err
	}
	same = same && ok
	if t := r.c.Overlay; t != nil {
		name := filepath.Join(filepath.Dir(r.planFile()), filepath.Base(filepath.FromSlash(t.Path)))
		b, err := r.bytesAt("file of tuned values", name, "--plan")
		if err != nil {
			return false, err
		}
		same = r.same("tuned values "+name, t.SHA256, overlay.Hash(b), "") && same
	}
	for _, f := range []struct {
		what, flag, name string
		file             *plan.File
	}{{"labels", "--labels", r.o.Labels, r.c.Data.Labels}, {"alphabet", "--root", "", r.c.Data.Alphabet}} {
		if f.file == nil {
			continue
		}
		name := cmp.Or(f.name, r.at(f.file.Path))
		sum, err := sumOfFiles(r.Files(), name)
		if store.Missing(err) {
			return false, gone(f.what, name, f.flag, fs.ErrNotExist)
		} else if err != nil {
			return false, err
		}
		same = r.same(f.what+" "+name, f.file.SHA256, sum, "") && same
	}
	for _, f := range r.c.Exports {
		for _, file := range f.files() {
			if err := r.exported(file); err != nil {
				return false, err
			}
		}
	}
	return same, nil
}

// exported compares a file of an export.
func (r *recheck) exported(f plan.File) error {
	name := r.at(f.Path)
	b, err := fs.ReadFile(r.Files(), name)
	switch {
	case store.Missing(err):
		r.say("export "+name, RecheckSkipped, f.SHA256, "", "the file is not here")
		return nil
	case err != nil:
		return err
	}
	r.same("export "+name, f.SHA256, store.Sum(b), "")
	return nil
}

// exports makes exported files again.
func (r *recheck) exports(ctx context.Context, p *planning.Planned) error {
	for i := range r.c.Exports {
		f := &r.c.Exports[i]
		name := filepath.Base(filepath.FromSlash(f.Path))
		what := "export " + name + ", made again"
		k := slices.IndexFunc(r.Catalog.Formats, func(x export.Format) bool { return x.Name == f.Export && x.From != export.Checkpoint })
		switch {
		case f.Export == "":
			r.say(what, RecheckSkipped, f.SHA256, "", "no format gave it by its defaults")
			continue
		case k < 0:
			r.say(what, RecheckSkipped, f.SHA256, "", "this program has no format "+f.Export)
			continue
		}
		made, err := exportAgain(ctx, r.Job, p, &r.Catalog.Formats[k], name, cmp.Or(f.Verification, p.Plan.Verification), r.o.Threads)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			r.say(what, RecheckDifferent, f.SHA256, "", fault.OneLine(err))
		default:
			r.madeAgain(f, made)
		}
	}
	return nil
}

// madeAgain compares every file of an export with what was made again.
func (r *recheck) madeAgain(f *CertifiedFile, made []export.File) {
	for i, was := range f.files() {
		what := "export " + filepath.Base(filepath.FromSlash(was.Path)) + ", made again"
		switch {
		case i >= len(made):
			r.say(what, RecheckDifferent, was.SHA256, "", "this program writes no such file")
		case made[i].SHA256 != was.SHA256 && r.c.Tool.Version != r.Catalog.Version:
			r.say(what, RecheckSkipped, was.SHA256, made[i].SHA256, "the file names the version of qwb that wrote it")
		default:
			r.same(what, was.SHA256, made[i].SHA256, "")
		}
	}
	for _, m := range made[min(len(made), 1+len(f.Parts)):] {
		r.say("export "+m.Path+", made again", RecheckSkipped, "", m.SHA256,
			"the certificate does not have this file of the export: make it anew")
	}
}
