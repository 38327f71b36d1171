package postgres

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRedact(t *testing.T) {
	f := func(sql, want string) {
		t.Helper()
		if got := Redact(sql, 200); got != want {
			t.Errorf("Redact(%q) = %q, want %q", sql, got, want)
		}
	}
	f("", "")
	f("select 1", "select ?")
	f("select  *\n\tfrom t1 where a = -1.5e-3 and b='x''y' -- note\n limit 10;", "select * from t1 where a = -? and b=? limit ?;")
	f("insert into t values (1, 'a', null), (2, $$b$$, $1)", "insert into t values (?, …, null), (?, …, $1)")
	f("select a from t where k in (1,2,3,4)", "select a from t where k in (?, …)")
	f(`select E'it\'s', B'01', x'ff', N'n', U&'\0041', "Col ""1""" from "T"`, `select ?, ?, ?, ?, ?, "Col ""1""" from "T"`)
	f("do $x$ begin perform $$a$$; end $x$", "do ?")
	f("alter role r password 'pw' valid until 'x'", "alter role r password ? valid until ?")
	f("select /* a /* b */ 'c */ 'd'", "select ?")
	f("select 'cut off by the serv", "select ? …")
	f("select $a$cut off", "select ? …")
	f(`select "cut`, "select …")
	f("select /* cut", "select …")
	f(`select 'c:\' , 'secret'`, "select ? …")
	f(`select 'c:\\' , x`, "select ? , x")
	f("select $1, $2::int, a$b from t$", "select $1, $2::int, a$b from t$")
	f("select 0x1F, 1_000, .5, 3.e2", "select ?, ?, ?, ?")
	f("sélect 'ß' as ünï", "sélect ? as ünï")
	f("select 1-1, 2-(-3)", "select ?-?, ?-(-?)")
	if got := Redact(strings.Repeat("é", 50), 10); got != strings.Repeat("é", 9)+"…" {
		t.Errorf("cut: %q", got)
	}
}

// Whatever a literal or comment holds, in whatever way it is written, no part
// of it is shown.
func TestRedactHidesLiterals(t *testing.T) {
	const canary = "Zq9Canary"
	rapid.Check(t, func(t *rapid.T) {
		inside := rapid.StringOfN(rapid.RuneFrom([]rune(`ab1'"\$/*- `+"\nß")), 0, 12, -1)
		secret := inside.Draw(t, "before") + canary + inside.Draw(t, "after")
		quotes := strings.ReplaceAll(secret, "'", "''")
		forms := []string{
			"'" + strings.ReplaceAll(quotes, `\`, `\\`) + "'",
			"E'" + strings.ReplaceAll(quotes, `\`, `\\`) + "'",
			"E'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(secret) + "'",
			"'" + quotes + "'", // standard_conforming_strings = on
			"'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(secret) + "'", // off
			"$tag$" + strings.ReplaceAll(secret, "$", "") + "$tag$",
			"/*" + strings.NewReplacer("/", "", "*", "").Replace(secret) + "*/",
			"--" + strings.ReplaceAll(secret, "\n", " ") + "\n",
		}
		sql := "select a, "
		for range rapid.IntRange(1, 4).Draw(t, "how many") {
			sql += rapid.SampledFrom(forms).Draw(t, "literal") + rapid.SampledFrom([]string{", ", " from t where x = ", " || ", "::text, "}).Draw(t, "between")
		}
		if cut := rapid.IntRange(0, len(sql)).Draw(t, "cut"); rapid.Bool().Draw(t, "is cut") {
			sql = sql[:cut]
		}
		if got := Redact(sql, 1000); strings.Contains(got, canary) || strings.Contains(got, "Zq9") {
			t.Fatalf("%q shows %q", sql, got)
		}
	})
}
