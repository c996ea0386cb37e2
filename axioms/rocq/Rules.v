(* The rules of propagation, as functions on lists of reals of any length.

   Every rule takes the relevance r of one output entry, and returns the relevance of each operand.
   [eps] is the stabiliser.  A limit epsilon -> 0 is the value at eps = 0 where no denominator is 0;
   the hypotheses name these denominators. *)
Require Export Reals Lra Lia List Permutation.
Export ListNotations. Global Open Scope R_scope.

Definition sum (l : list R) : R := fold_right Rplus 0 l.
Definition product (l : list R) : R := fold_right Rmult 1 l.

(* Two lists of one length, entry by entry. *)
Fixpoint zip (f : R -> R -> R) (a b : list R) : list R :=
  match a, b with x :: a', y :: b' => f x y :: zip f a' b' | _, _ => [] end.

(* The sign that the stabiliser uses, which is +1 at 0, and what it adds to a denominator. *)
Definition sign (z : R) : R := if Rle_dec 0 z then 1 else -1.
Definition push (eps z : R) : R := eps * sign z.

(* Eq. 1 for an output z = sum of x_i w_i + b, the bias being in the denominator. *)
Definition linear (x w : list R) (b : R) : R := sum (zip Rmult x w) + b.
Definition eq1 (eps : R) (x w : list R) (b r : R) : list R :=
  let z := linear x w b in map (fun c => c * (r / (z + push eps z))) (zip Rmult x w).

(* Eqs. 3 and 4 for an output z = scale times a sum of products of n factors, as in a product of n
   matrices: every factor of a term receives term R/(n z + epsilon sign z).  One term alone is a
   product of n numbers. *)
Definition terms (scale : R) (ts : list (list R)) : R := scale * sum (map product ts).
Definition eq3 (eps scale : R) (n : nat) (ts : list (list R)) (r : R) : list R :=
  let z := terms scale ts in
  flat_map (fun t => map (fun _ => scale * product t * (r / (INR n * z + push eps z))) t) ts.

(* Softmax of a row of logits, and Eq. 5, which gives logit i z_i (R_i - A_i sum R). *)
Definition softmax (z : list R) : list R := map (fun u => exp u / sum (map exp z)) z.
Definition eq5 (z r : list R) : list R :=
  zip Rmult z (zip Rminus r (map (fun a => a * sum r) (softmax z))).

Definition mean_logit (z : list R) : R := sum (zip Rmult (softmax z) z). (* under the weights *)

(* Sums. *)
Lemma sum_app a b : sum (a ++ b) = sum a + sum b.
Proof. induction a; simpl; [|rewrite IHa]; lra. Qed.
Lemma product_app a b : product (a ++ b) = product a * product b.
Proof. induction a; simpl; [|rewrite IHa]; ring. Qed.
Lemma sum_scale {A} (f : A -> R) k l : sum (map (fun x => f x * k) l) = sum (map f l) * k.
Proof. induction l; simpl; [|rewrite IHl]; ring. Qed.
Lemma sum_plus {A} (f g : A -> R) l :
  sum (map (fun x => f x + g x) l) = sum (map f l) + sum (map g l).
Proof. induction l; simpl; [|rewrite IHl]; ring. Qed.
Lemma sum_zero {A} (l : list A) : sum (map (fun _ => 0) l) = 0.
Proof. induction l; simpl; [|rewrite IHl]; ring. Qed.
Lemma sum_const {A} (c : R) (l : list A) : sum (map (fun _ => c) l) = INR (length l) * c.
Proof.
  induction l as [|x l H]; [simpl; ring|].
  change (length (x :: l)) with (S (length l)). rewrite S_INR. simpl. rewrite H. ring.
Qed.

Lemma sum_zeros n : sum (repeat 0 n) = 0.
Proof. induction n; simpl; [|rewrite IHn]; ring. Qed.
Lemma zip_app f a b c d : length a = length c -> zip f (a ++ b) (c ++ d) = zip f a c ++ zip f b d.
Proof.
  revert c. induction a; destruct c; simpl; intros H; try discriminate; [reflexivity|].
  injection H as H. rewrite IHa; auto.
Qed.

Lemma zip_length f a b : length (zip f a b) = Nat.min (length a) (length b).
Proof. revert b. induction a; destruct b; simpl; auto. Qed.
Lemma sum_zip_zeros n l : sum (zip Rmult (repeat 0 n) l) = 0.
Proof. revert l. induction n; destruct l; simpl; try rewrite IHn; ring. Qed.
Lemma sum_zip_repeat c l : sum (zip Rmult l (repeat c (length l))) = sum l * c.
Proof. induction l; simpl; [|rewrite IHl]; ring. Qed.

(* A positive epsilon keeps every denominator from 0. *)
Lemma stabilised eps z n : 0 < eps -> 0 <= n -> n * z + push eps z <> 0.
Proof. intros H N. unfold push, sign. destruct (Rle_dec 0 z); nra. Qed.
Lemma push_0 z : push 0 z = 0.
Proof. unfold push. ring. Qed.

(* Exponentials and attention weights. *)
Lemma sum_exp_nonneg z : 0 <= sum (map exp z).
Proof. induction z; simpl; [|pose proof (exp_pos a)]; lra. Qed.
Lemma sum_exp_pos z : z <> [] -> 0 < sum (map exp z).
Proof.
  destruct z as [|u z]; intros H; [congruence|]. simpl.
  pose proof (exp_pos u). pose proof (sum_exp_nonneg z). lra.
Qed.

Lemma softmax_sum z : z <> [] -> sum (softmax z) = 1.
Proof.
  intros H. unfold softmax, Rdiv. rewrite sum_scale. apply Rinv_r.
  pose proof (sum_exp_pos z H). lra.
Qed.

Lemma softmax_length z : length (softmax z) = length z.
Proof. apply map_length. Qed.
Lemma eq5_length z r : length r = length z -> length (eq5 z r) = length z.
Proof. intros H. unfold eq5. rewrite !zip_length, map_length, softmax_length. lia. Qed.
