package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"headroom/web/api"
	"headroom/web/auth"
)

// policy lets a page load what the server itself gives out, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// pageBody is how much a page's form may send.
const pageBody = 64 << 10

// handler is everything: the guard, and behind it answers and pages.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range s.o.API.Routes() {
		mux.Handle(rt.Method+" "+rt.Path, s.answer(rt))
	}
	mux.HandleFunc("/api/", s.noAnswer)
	mux.HandleFunc("GET /login", s.loginPage)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	mux.Handle("/", s.page())
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		api.Refuse(w, http.StatusForbidden, "", "the request comes from a page of another site")
	}))
	return s.headers(s.recovered(s.knownHost(cross.Handler(mux))))
}

// headers go with every answer. Who is not known yet has as long to send a body
// as it had for the head, and is answered without waiting for it.
func (s *Server) headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.limitTime(w, headTime)
		h := w.Header()
		if r.ContentLength != 0 {
			h.Set("Connection", "close") // else net/http reads the rest of the body first
		}
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store") // pages set their own for what never changes
		if r.TLS != nil {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// recovered answers a panic with 500 and an id that the log has, too.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p)
			}
			var b [4]byte
			_, _ = rand.Read(b[:]) // crypto/rand.Read never fails
			id := hex.EncodeToString(b[:])
			s.log(fmt.Sprintf("BUG %s: %s %q: %v\n%s", id, r.Method, r.URL.Path, p, debug.Stack()))
			api.Refuse(w, http.StatusInternalServerError, "the log of headroom has the details under this id", "internal error "+id)
		}()
		next.ServeHTTP(w, r)
	})
}

// knownNames are the host names that it answers to.
func (s *Server) knownNames() map[string]bool {
	names := map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}
	for _, n := range append(s.o.Hosts, s.at.host) {
		if n != "" {
			names[plainHost(n)] = true
		}
	}
	return names
}

// plainHost is the name in a Host header: no port, no brackets, lower case, no
// dot at the end.
func plainHost(h string) string {
	if host, _, err := net.SplitHostPort(h); err == nil {
		h = host
	}
	h = strings.TrimSuffix(strings.TrimPrefix(h, "["), "]")
	return strings.ToLower(strings.TrimSuffix(h, "."))
}

// knownHost refuses requests for other names: a page of another site whose
// name was made to lead here would be among them.
func (s *Server) knownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.names[plainHost(r.Host)] {
			api.Refuse(w, http.StatusMisdirectedRequest, "start it with --name NAME to have it answer to one more name", fmt.Sprintf("this server does not answer to the name %.80q", r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answer puts the right to ask, and time limits, before a route.
func (s *Server) answer(rt api.Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rt.Scope == "" {
			rt.ServeHTTP(w, r)
			return
		}
		who, err := s.who(r)
		switch {
		case err != nil && err != auth.ErrUnknown:
			s.log("who asks cannot be told: " + err.Error())
			api.Refuse(w, http.StatusInternalServerError, "", "who asks cannot be told: "+err.Error())
		case err != nil:
			s.unknown(w, r)
		case !who.May(rt.Scope):
			api.Refuse(w, http.StatusForbidden, "headroom up token create makes one with more rights", fmt.Sprintf("%s %q lacks the right %q", holder(who), who.Name, rt.Scope))
		default:
			s.admit(w)
			ctx := auth.With(r.Context(), who)
			if rt.Stream {
				unlimited(w, r)
			}
			if rt.Stream && r.Method == http.MethodGet {
				var stop context.CancelFunc
				ctx, stop = s.whileKnown(ctx, r)
				defer stop()
			}
			rt.ServeHTTP(w, r.WithContext(ctx))
		}
	})
}

// rightsEvery is how often it is looked whether the token or session of an
// open stream is still good.
const rightsEvery = 5 * time.Second

// whileKnown returns a context that ends when the token or session of a
// request does. A file that cannot be read now ends nothing that was allowed.
func (s *Server) whileKnown(ctx context.Context, r *http.Request) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	var look func()
	look = func() { // a timer, not a goroutine: there may be thousands
		if ctx.Err() != nil {
			return
		}
		if _, err := s.who(r); errors.Is(err, auth.ErrUnknown) {
			stop()
			return
		}
		time.AfterFunc(rightsEvery, look)
	}
	time.AfterFunc(rightsEvery, look)
	return ctx, stop
}

func holder(w auth.Who) string {
	if w.Session {
		return "the session of"
	}
	return "token"
}

// admit gives who is known the time and the connection that strangers do not
// get.
func (s *Server) admit(w http.ResponseWriter) {
	w.Header().Del("Connection")
	s.limitTime(w, s.o.Patience)
}

// limitTime bounds reading a body, and answering; of a body that did not come
// in time there is an answer, too.
func (s *Server) limitTime(w http.ResponseWriter, reading time.Duration) {
	c := http.NewResponseController(w)
	now := time.Now()
	_ = c.SetReadDeadline(now.Add(reading)) // always possible on the server's own connections
	_ = c.SetWriteDeadline(now.Add(s.o.Patience + headTime))
}

// unlimited lets a stream take as long as it needs. The limit for its body
// stays, if it has one, until the route sets its own: one that is refused
// unread is waited for, too.
func unlimited(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	_ = c.SetWriteDeadline(time.Time{})
	if r.ContentLength == 0 {
		_ = c.SetReadDeadline(time.Time{})
	}
}

// unknown answers who could not be known: 401, after many tries 429.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" {
		if wait := s.limiter.Failed(addrOf(r)); wait > 0 {
			tooMany(w, wait)
			return
		}
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="headroom"`)
	api.Refuse(w, http.StatusUnauthorized, "send Authorization: Bearer TOKEN (headroom up token create makes one), or open the login link that headroom up printed", "no valid token or session")
}

func tooMany(w http.ResponseWriter, wait time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())+1))
	api.Refuse(w, http.StatusTooManyRequests, "", "too many failed logins from this address")
}

func addrOf(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // a unix socket: all of them are one place
	}
	return ap.Addr()
}

// who tells who asks: by bearer token, else by session. A request that shows a
// wrong token is not taken for the session's.
func (s *Server) who(r *http.Request) (auth.Who, error) {
	if h := r.Header.Get("Authorization"); h != "" {
		scheme, secret, _ := strings.Cut(h, " ")
		if !strings.EqualFold(scheme, "bearer") {
			return auth.Who{}, auth.ErrUnknown
		}
		return s.o.Tokens.Check(strings.TrimSpace(secret))
	}
	c, err := r.Cookie(cookieName(r))
	if err != nil {
		return auth.Who{}, auth.ErrUnknown
	}
	return s.o.Sessions.Check(c.Value, s.o.Tokens)
}

// noAnswer tells apart a wrong address and a wrong method.
func (s *Server) noAnswer(w http.ResponseWriter, r *http.Request) {
	api.Refuse(w, http.StatusNotFound, "GET /api/v1/openapi.yaml lists all there is", fmt.Sprintf("there is no %s %.80q", r.Method, r.URL.Path))
}
