package headroom

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The sizes past which a file or function no longer fits into a head.
const (
	fileLines     = 500
	functionLines = 80
)

func TestSizesAndDocs(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, ".go") {
			style(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func style(t *testing.T, path string) {
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(src, []byte("\n")); n > fileLines {
		t.Errorf("%s has %d lines; split it by meaning (limit %d)", path, n, fileLines)
	}
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	test := strings.HasSuffix(path, "_test.go")
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			lines := set.Position(d.End()).Line - set.Position(d.Pos()).Line + 1
			if lines > functionLines {
				t.Errorf("%s: %s has %d lines (limit %d)", path, d.Name.Name, lines, functionLines)
			}
			plain := d.Name.Name == "String" || d.Name.Name == "Error" || d.Name.Name == "Unwrap"
			if !test && !plain && d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
				t.Errorf("%s: %s has no doc comment", path, d.Name.Name)
			}
		case *ast.GenDecl:
			if !test {
				documented(t, path, d)
			}
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if idx, ok := typ.(*ast.IndexExpr); ok {
		typ = idx.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}

func documented(t *testing.T, path string, d *ast.GenDecl) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
				t.Errorf("%s: type %s has no doc comment", path, s.Name.Name)
			}
		case *ast.ValueSpec:
			for _, n := range s.Names {
				if n.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					t.Errorf("%s: %s has no doc comment", path, n.Name)
				}
			}
		}
	}
}
