package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"headroom/web/api"
	"headroom/web/auth"
)

// cookieName is that of the session's cookie. Under TLS its prefix makes
// browsers hold to Secure, Path=/ and this very host.
func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return "__Host-headroom"
	}
	return "headroom"
}

func sessionCookie(r *http.Request, secret string, life time.Duration) *http.Cookie {
	return &http.Cookie{Name: cookieName(r), Value: secret, Path: "/", MaxAge: int(life.Seconds()),
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode}
}

// page answers everything that is no API: after a login only.
func (s *Server) page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.who(r)
		switch {
		case err != nil && !errors.Is(err, auth.ErrUnknown):
			s.log("who asks cannot be told: " + err.Error())
			http.Error(w, "who asks cannot be told; see the log of headroom", http.StatusInternalServerError)
		case err != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Authorization") == "":
			http.Redirect(w, r, "/login", http.StatusSeeOther)
		case err != nil:
			s.unknown(w, r)
		case !who.May(auth.Read):
			api.Refuse(w, http.StatusForbidden, "", fmt.Sprintf("%s %q lacks the right %q", holder(who), who.Name, auth.Read))
		case s.o.Pages == nil:
			http.Error(w, "There are no pages in this server; the API is at /api/v1/.", http.StatusNotFound)
		default:
			s.admit(w)
			r.Body = http.MaxBytesReader(w, r.Body, pageBody)
			s.o.Pages.ServeHTTP(w, r.WithContext(auth.With(r.Context(), who)))
		}
	})
}

// The pages of the login stand for themselves: they must work where nothing
// else does. They hold nothing that came from outside.
const (
	loginHead = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">" +
		"<meta name=\"color-scheme\" content=\"light dark\"><title>Headroom: log in</title></head><body><h1>Headroom</h1>\n"
	loginForm = loginHead + `<p>%s</p>
<p>Run <code>headroom up link</code> on the server and open the link that it prints. Or paste the code of the link, or a token, here:</p>
<form method="post" action="/login"><p><label>Code or token <input name="secret" type="password" autocomplete="off" autofocus required></label> <button>Log in</button></p></form>
</body></html>
`
	loggedIn = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url=/\"><title>Headroom</title></head>" +
		"<body><p>Logged in. <a href=\"/\">Go on</a></p></body></html>\n"
)

func html(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // that the client has gone is nobody's fault
}

// loginPage takes the code of a login link, or asks for one. It answers with a
// page that leads on, not with a redirect: after a link in a mail or a chat a
// browser would not send the new cookie along with a redirect.
func (s *Server) loginPage(w http.ResponseWriter, r *http.Request) {
	code := r.URL.Query().Get("code")
	if code == "" || r.Method != http.MethodGet { // a HEAD, as of a link's preview, uses up nothing
		html(w, http.StatusOK, fmt.Sprintf(loginForm, "You are not logged in."))
		return
	}
	s.enter(w, r, code)
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, pageBody)
	if err := r.ParseForm(); err != nil {
		html(w, http.StatusBadRequest, fmt.Sprintf(loginForm, "The form could not be read."))
		return
	}
	s.enter(w, r, strings.TrimSpace(r.PostForm.Get("secret")))
}

// enter opens a session for who shows a code or a token.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, secret string) {
	session, err := s.o.Sessions.Redeem(secret)
	if errors.Is(err, auth.ErrUnknown) {
		var who auth.Who
		if who, err = s.o.Tokens.Check(secret); err == nil {
			session, err = s.o.Sessions.Begin(who)
		}
	}
	switch {
	case err == nil:
		http.SetCookie(w, sessionCookie(r, session, auth.SessionLife))
		html(w, http.StatusOK, loggedIn)
	case !errors.Is(err, auth.ErrUnknown):
		s.log("log in: " + err.Error())
		html(w, http.StatusInternalServerError, fmt.Sprintf(loginForm, "The server cannot log in anybody now; its log says why."))
	default:
		if wait := s.limiter.Failed(addrOf(r)); wait > 0 {
			tooMany(w, wait)
			return
		}
		html(w, http.StatusForbidden, fmt.Sprintf(loginForm, "This code or token is not valid: a link works once, for 15 minutes."))
	}
}

func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieName(r)); err == nil {
		if err := s.o.Sessions.End(c.Value); err != nil {
			s.log("log out: " + err.Error())
			http.Error(w, "the session could not be ended; see the log of headroom", http.StatusInternalServerError)
			return
		}
	}
	http.SetCookie(w, sessionCookie(r, "", -time.Second))
	html(w, http.StatusOK, fmt.Sprintf(loginForm, "Logged out."))
}
