package pgscript

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// show writes a script's steps as short lines.
func show(s *Script) string {
	var b strings.Builder
	for i, st := range s.steps {
		switch st.do {
		case runSQL:
			fmt.Fprintf(&b, "%d sql %q store %d%s\n", i, st.text, st.store, st.prefix)
		case setVar:
			fmt.Fprintf(&b, "%d set %s\n", i, s.names[st.slot])
		case sleep:
			fmt.Fprintf(&b, "%d sleep %s\n", i, st.unit)
		case jump, unless:
			fmt.Fprintf(&b, "%d %s %d\n", i, map[action]string{jump: "jump", unless: "unless"}[st.do], st.target)
		case startPipeline, endPipeline:
			fmt.Fprintf(&b, "%d pipeline %t\n", i, st.do == startPipeline)
		}
	}
	return b.String()
}

func TestParseStatements(t *testing.T) {
	for src, want := range map[string]string{
		"select 1;select 2": "0 sql \"select 1\" store 0\n1 sql \"select 2\" store 0\n",
		"-- a comment; here\n ; /* ; /* */ */ ;select\n :a,\n:b ;\n":                                 "0 sql \"select\\n $1,\\n$2\" store 0\n",
		"select ':a', \":b\", $$ ; :c $$, $x$;$x$, e'\\';:d', 'it''s;', 1::int, a:=b, f(1;2), x$1$;": "0 sql \"select ':a', \\\":b\\\", $$ ; :c $$, $x$;$x$, e'\\\\';:d', 'it''s;', 1::int, a:=b, f(1;2), x$1$\" store 0\n",
		"select 1 -- no :var; here\n, :a_1é;":                                                        "0 sql \"select 1 -- no :var; here\\n, $1\" store 0\n",
		"select 1 \\gset\nselect 2;\n\\gset p_\nselect 3\\aset":                                      "0 sql \"select 1\" store 1\n1 sql \"select 2\" store 1p_\n2 sql \"select 3\" store 2\n",
		"begin \\; select :a \\; end;":                                                               "0 sql \"begin ; select $1 ; end\" store 0\n",
		"\\set a 1 + \\\n 2\r\nselect 1":                                                             "0 set a\n1 sql \"select 1\" store 0\n",
		"\\sleep 10ms\n\\sleep :x us\n\\sleep 1":                                                     "0 sleep 1ms\n1 sleep 1µs\n2 sleep 1s\n",
		"\\if 1\na;\n\\elif 2\nb;\n\\else\nc;\n\\endif\nd;":                                          "0 unless 3\n1 sql \"a\" store 0\n2 jump 7\n3 unless 6\n4 sql \"b\" store 0\n5 jump 7\n6 sql \"c\" store 0\n7 sql \"d\" store 0\n",
		"\\startpipeline\na;\nb;\n\\endpipeline":                                                     "0 pipeline true\n1 sql \"a\" store 0\n2 sql \"b\" store 0\n3 pipeline false\n",
		"\\if 1\n\\endif\n":                                                                          "0 unless 1\n",
	} {
		s, err := Parse("x", src)
		if err != nil {
			t.Errorf("%q: %v", src, err)
			continue
		}
		if got := show(s); got != want {
			t.Errorf("%q:\n%swant\n%s", src, got, want)
		}
	}
}

func TestParseErrorsSayWhereAndWhatIsAllowed(t *testing.T) {
	for src, want := range map[string]string{
		"":                                   "f.sql:1:1: the script has no commands",
		"select 1;\n\\sett a 1":              "f.sql:2:1: unknown command \\sett (allowed: \\set",
		"\\setrandom a 1 2":                  "\\set NAME random(LOW, HIGH)",
		"\n\n  \\shell ls":                   "f.sql:3:3: \\shell is refused: scripts run no programs",
		"\\setshell x ls":                    "refused",
		"\\set":                              "f.sql:1:1: \\set needs a name",
		"\\set 1a 2":                         "f.sql:1:6: \"1a\" is no name",
		"\\set a":                            "f.sql:1:7: the expression is missing",
		"\\set a 1 +":                        "f.sql:1:11: the expression ends too early",
		"\\set a 1 2":                        "f.sql:1:10: unexpected \"2\"",
		"\\set a (1":                         "f.sql:1:10: unexpected the end of the line (allowed: \")\")",
		"\\set a foo(1)":                     "f.sql:1:8: \"foo\" is no function (allowed: abs, debug,",
		"\\set a abs(1, 2)":                  "f.sql:1:8: abs has 2 arguments (allowed: 1)",
		"\\set a random(1)":                  "random has 1 arguments (allowed: 2)",
		"\\set a least()":                    "allowed: at least 1",
		"\\set a 1 < 2 < 3":                  "comparisons do not chain",
		"\\set a 9223372036854775808":        "does not fit into 64 bits",
		"\\set a 1e999":                      "too large",
		"\\set a 1 is 2":                     "NULL, TRUE or FALSE",
		"\\set a case 1 end":                 "f.sql:1:13: unexpected \"1\" (allowed: \"when\")",
		"\\set a 1 ? 2":                      "f.sql:1:10: unexpected '?'",
		"\\set a 'x'":                        "f.sql:1:8: unexpected '\\''",
		"\\sleep":                            "no time for \\sleep",
		"\\sleep 5 minutes":                  "\"minutes\" is no unit",
		"\\sleep -1":                         "no time",
		"\\if 1\nselect 1;":                  "f.sql:1:1: \\if has no end (allowed: \\endif)",
		"\\else":                             "\\else without \\if",
		"\\if 1\n\\else\n\\else\n":           "f.sql:3:1: \\else behind \\else",
		"\\if 1\n\\else\n\\elif 1\n":         "\\elif behind \\else",
		"\\if 1\n\\endif x":                  "f.sql:2:8: unexpected \"x\"",
		"\\gset":                             "f.sql:1:1: \\gset must follow an SQL statement",
		"select 1 \\gset\n\\gset":            "f.sql:2:1: \\gset must follow",
		"select 1 \\gset 1x":                 "f.sql:1:16: \"1x\" is no prefix",
		"\\if 1\nselect 1;\n\\endif\n\\gset": "must follow",
		"\\startpipeline\nselect 1 \\gset\n\\endpipeline": "f.sql:2:10: \\gset is not possible in a pipeline",
		"\\startpipeline\n":                               "\\startpipeline has no end",
		"\\endpipeline":                                   "without \\startpipeline",
		"\\startpipeline\n\\startpipeline":                "inside a pipeline",
		"\\if 1\n\\startpipeline\n\\endif\n\\endpipeline": "same side of a pipeline",
		"\\startpipeline\n\\if 1\n\\endpipeline\n\\endif": "same branch",
		"select 'abc":                                     "f.sql:1:8: the quote ' has no end",
		"select 1;\nselect \"abc":                         "f.sql:2:8: the quote \" has no end",
		"select $a$ $b$":                                  "f.sql:1:8: the quote $a$ has no end",
		"/* /* */":                                        "the comment /* has no end",
		"select \x00":                                     "f.sql:1:8: a zero byte",
		"select '\x00'":                                   "a zero byte",
	} {
		_, err := Parse("f.sql", src)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", src, err, want)
		}
	}
}

func TestDeepNestingIsRefused(t *testing.T) {
	for _, unit := range []string{"(", "-", "not ", "~", "abs(", "case when "} {
		_, err := Parse("x", "\\set a "+strings.Repeat(unit, 100_000)+"1")
		if err == nil || !strings.Contains(err.Error(), "nested too deeply") {
			t.Errorf("%s: %v", unit, err)
		}
	}
	if _, err := Parse("x", "\\set a "+strings.Repeat("1+", 100_000)+"1"); err != nil {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []*Script{TPCB(), SelectOnly()} {
		f.Add(s.src)
	}
	for _, s := range []string{
		"\\if :a > 1\nselect 1 \\gset p_\n\\elif not true\n\\sleep 1ms\n\\else\n\\startpipeline\nselect :x;\n\\endpipeline\n\\endif",
		"\\set a case when 1 is not null then -2.5e3 else least(1,2) end \\\n + 3\n", "select $q$;$q$, e'\\'', \"a\"\"b\" /* x */ \\; select 2 \\aset",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		start := time.Now()
		s, err := Parse("x", src)
		if took := time.Since(start); took > time.Second+time.Duration(len(src))*time.Microsecond {
			t.Fatalf("%d bytes took %s", len(src), took)
		}
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Line < 1 || e.Column < 1 {
				t.Fatalf("%q: %v", src, err)
			}
			return
		}
		for i, st := range s.steps {
			if (st.do == jump || st.do == unless) && (st.target <= i || st.target > len(s.steps)) {
				t.Fatalf("%q: step %d jumps to %d of %d", src, i, st.target, len(s.steps))
			}
		}
	})
}
