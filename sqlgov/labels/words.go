package labels

import (
	"slices"
	"strings"
	"unicode"

	"interlock/redact"
)

// rule is a label with the words that stand for it in names and comments.
type rule struct {
	label string
	// categories are those of PostgreSQL's types (pg_type.typcategory) that such data is kept in.
	categories string
	phrases    string // separated by commas
}

// rules are tried in order, so that an "email address" is none to live at.
var rules = []rule{
	{"email", "S", "email, e mail, mail address, correo electronico, courriel"},
	{"ip", "SI", "ip, ip address, ip addr, remote addr, client addr"},
	{"phone", "SN", "phone, telephone, mobile, cell phone, fax, msisdn, telefon, telefono, telephone number"},
	{"ssn", "SN", "ssn, social security, social security number, social insurance"},
	{"national_id", "SN", "national id, national number, tax id, tax number, cpf, cnpj, nir, dni, nie, nino, pesel, bsn, aadhaar, passport, driver license, driving licence, " +
		"identity card, steuernummer"},
	{"iban", "S", "iban, bank account, account iban"},
	{"card", "SN", "card no, card number, card num, credit card, cc number, pan, cvv, cvc"},
	{"secret", "SU", "password, passwd, pwd, passphrase, secret, token, api key, private key, access key, credential, credentials, otp, passwort, contrasena, mot de passe"},
	{"birth_date", "SD", "birth, birthday, birth date, date of birth, dob, born, geburtsdatum, date naissance, fecha nacimiento"},
	{"name", "S", "first name, last name, given name, family name, full name, surname, maiden name, middle name, vorname, nachname, prenom, apellido, apellidos"},
	{"address", "S", "address, addr, street, postal code, postcode, zip, zip code, strasse, adresse, direccion"},
	{"location", "SNG", "latitude, longitude, lat, lon, lng, geo, coordinates, location"},
	{"income", "SN", "salary, wage, income, compensation, payroll, bonus, gehalt, salaire"},
	{"special", "SE", "gender, sex, religion, ethnicity, race, nationality, diagnosis, disease, blood type, disability, sexual orientation, political party, union member"},
}

// ofContent are the labels for kinds of content.
var ofContent = map[redact.Content]string{redact.EmailAddress: "email", redact.PhoneNumber: "phone", redact.SocialSecurity: "ssn", redact.NationalNumber: "national_id",
	redact.BankAccount: "iban", redact.CardNumber: "card", redact.IPAddress: "ip", redact.WebToken: "secret", redact.PrivateKey: "secret", redact.APIToken: "secret"}

// people are words for tables whose rows are people: a "name" in them is that of one.
const people = "customer, customers, client, clients, user, users, person, persons, people, patient, patients, employee, employees, staff, contact, contacts, member, members, " +
	"candidate, candidates, applicant, applicants, student, students, guest, guests, passenger, passengers, tenant, salary, salaries"

// words cuts a name or a comment into its words, in lower case: "billingEmail_2" is billing, email.
func words(text string) []string {
	var all []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			all = append(all, strings.ToLower(string(word)))
		}
		word = word[:0]
	}
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case unicode.IsUpper(r) && len(word) > 0 && unicode.IsLower(word[len(word)-1]):
			end()
		}
		word = append(word, r)
	}
	end()
	return all
}

// says finds the first phrase of a list in words. One of several words may be written as one.
func says(words []string, phrases string) (string, bool) {
	for phrase := range strings.SplitSeq(phrases, ", ") {
		parts := strings.Fields(phrase)
		if slices.Contains(words, strings.Join(parts, "")) {
			return phrase, true
		}
		for i := 0; i+len(parts) <= len(words); i++ {
			if slices.Equal(words[i:i+len(parts)], parts) {
				return phrase, true
			}
		}
	}
	return "", false
}
