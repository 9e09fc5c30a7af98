//! Certificates: a record is checked against the run rules, and the result is put beside it and signed with everything else. And the
//! way back, from a directory or an archive of somebody else.
//!
//! What is signed is `MANIFEST.sha256`, which names every file of the record by its check sum, `certificate.json` among
//! them. The signature is OpenSSH's own (`SSHSIG`), so that nobody has to trust this program to check it.
//! `docs/certify.md` describes both for readers who check without webstone.

pub mod archive;
pub mod key;
pub mod signature;

use serde::{Deserialize, Serialize};
use webstone_judge::verdict::{self, RuleResult, RuleStanding, Standing};
use webstone_model::record::{RunRecord, Tool};

/// Version of `certificate.json`'s form.
pub const FORMAT: u32 = 1;

/// What `certificate.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// The record's identifier.
    pub run: String,
    /// The program that checked the record against the rules.
    pub tool: Tool,
    /// When (RFC 3339, UTC).
    pub made_at: String,
    /// Whether every rule is met and the verdict is valid. If not, the signature is of an uncertified record.
    pub certified: bool,
    /// The verdict.
    pub standing: Standing,
    /// Why it is invalid, where it is.
    pub reasons: Vec<String>,
    /// Every run rule.
    pub rules: Vec<RuleResult>,
}

impl Certificate {
    /// Checks a record against the run rules.
    pub fn of_record(record: &RunRecord, tool: Tool, made_at: String) -> Certificate {
        let verdict = verdict::of_record(record);
        let rules = verdict::rules(record);
        let met = rules.iter().all(|rule| rule.standing == RuleStanding::Met);
        Certificate {
            format: FORMAT,
            run: record.id.clone(),
            tool,
            made_at,
            certified: met && verdict.standing == Standing::Valid,
            standing: verdict.standing,
            reasons: verdict.reasons.into_iter().map(|reason| reason.sentence).collect(),
            rules,
        }
    }

    /// Number of rules with this standing.
    pub fn count(&self, standing: RuleStanding) -> usize {
        self.rules.iter().filter(|rule| rule.standing == standing).count()
    }

    /// The certificate as it is stored.
    pub fn to_json(&self) -> Vec<u8> {
        let mut text =
            serde_json::to_vec_pretty(self).expect("a certificate is a tree of strings and numbers");
        text.push(b'\n');
        text
    }

    /// Where this certificate differs from the record, in words.
    pub fn differences(&self, record: &RunRecord) -> Differences {
        let own = Certificate::of_record(record, self.tool.clone(), self.made_at.clone());
        let differ = |found: &mut Vec<String>, what: &str, said: String, is: String| {
            if said != is {
                found.push(format!("{what}: the certificate says `{said}`, the record gives `{is}`"));
            }
        };
        let (mut identity, mut judgement) = (Vec::new(), Vec::new());
        differ(&mut identity, "format", self.format.to_string(), own.format.to_string());
        differ(&mut identity, "run", self.run.clone(), own.run);
        differ(&mut judgement, "certified", self.certified.to_string(), own.certified.to_string());
        differ(&mut judgement, "verdict", self.standing.word().to_owned(), own.standing.word().to_owned());
        differ(&mut judgement, "reasons", self.reasons.join("; "), own.reasons.join("; "));
        let words = |rule: &RuleResult| format!("{}, {}", standing_words(rule.standing), rule.evidence);
        for rule in &own.rules {
            let said = self.rules.iter().find(|said| said.id == rule.id);
            let said = said.map_or("nothing".to_owned(), words);
            differ(&mut judgement, &format!("rule {}", rule.id), said, words(rule));
        }
        for said in self.rules.iter().filter(|said| !own.rules.iter().any(|rule| rule.id == said.id)) {
            let rule = format!("rule {}", said.id);
            differ(&mut judgement, &rule, words(said), "no such rule".to_owned());
        }
        Differences { identity, judgement }
    }
}

/// Where a certificate differs from its record, one line each.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Which record it belongs to.
    pub identity: Vec<String>,
    /// Verdict and run rules. Another version may judge the same record differently.
    pub judgement: Vec<String>,
}

/// A rule's standing in words.
pub fn standing_words(standing: RuleStanding) -> &'static str {
    match standing {
        RuleStanding::Met => "met",
        RuleStanding::NotMet => "not met",
        RuleStanding::CannotTell => "cannot tell",
    }
}
