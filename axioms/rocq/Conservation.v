(* What operations absorb, and graphs of any size made of them: theorems 6 and 25. *)
From Lrp Require Import Rules Attention.

(* Theorem 6: "With the bias in the denominator, the inputs of a linear layer receive exactly
   R_j (z_j - b_j)/(z_j + epsilon s_j) of output j; bias and stabiliser absorb the rest."  The layer
   has any number of inputs; b, z, r and p = epsilon s are of one output j. *)
Theorem theorem_6_inputs_bias_and_stabiliser eps x w b r :
  let z := linear x w b in let p := push eps z in z + p <> 0 ->
  sum (eq1 eps x w b r) = r * (z - b) / (z + p) /\
  r - sum (eq1 eps x w b r) = r * b / (z + p) + r * p / (z + p).
Proof.
  intros z p N. enough (E : sum (eq1 eps x w b r) = r * (z - b) / (z + p)).
  { rewrite E. split; [reflexivity|]. now field. }
  unfold eq1. fold z p. rewrite sum_scale, map_id.
  replace (sum (zip Rmult x w)) with (z - b) by (unfold z, linear; ring). now field.
Qed.

(* Graphs.  A node is one number, such as an entry of a matrix; its operation says what it is
   computed from.  [Linear] covers layers, residual sums (weights 1) and all that is linear once
   something is held: LayerNorm at its deviation, and CP-LRP's readout at its attention weights. *)
Section Graph.
Variables (node : Type) (eq_dec : forall i j : node, {i = j} + {i <> j}).

Inductive operation :=
| Input                                              (* keeps its relevance *)
| Linear (xs : list node) (w : list R) (b : R)       (* Eq. 1 *)
| Products (scale : R) (n : nat) (ts : list (list node))  (* Eqs. 3 and 4 *)
| Softmax (before : list node) (u : node) (after : list node)  (* Eq. 5 at the weight of logit u *)
| Activation (x : node)                              (* the identity rule *)
| Held (xs : list node).                             (* a constant: operands receive nothing *)

Variables (v : node -> R) (eps : R). (* v are the values *)
Definition operands (o : operation) : list node :=
  match o with
  | Input => [] | Activation x => [x]
  | Linear xs _ _ | Held xs => xs | Products _ _ ts => concat ts
  | Softmax b u a => b ++ u :: a
  end.

(* What the operands receive of the relevance r of a node. *)
Definition received (o : operation) (r : R) : list R :=
  match o with
  | Input => [] | Activation _ => [r]
  | Linear xs w b => eq1 eps (map v xs) w b r
  | Held xs => repeat 0 (length xs)
  | Products s n ts => eq3 eps s n (map (map v) ts) r
  | Softmax b u a => eq5 (map v (b ++ u :: a)) (repeat 0 (length b) ++ r :: repeat 0 (length a))
  end.

Definition z (o : operation) : R :=
  match o with
  | Linear xs w b => linear (map v xs) w b
  | Products s _ ts => terms s (map (map v) ts) | _ => 0
  end.
(* Lists have the lengths that they should have, and the denominator d is not 0. *)
Definition d (o : operation) : R :=
  match o with Products _ n _ => INR n * z o | _ => z o end + push eps (z o).
Definition defined (o : operation) : Prop :=
  match o with
  | Linear xs w _ => length w = length xs /\ d o <> 0
  | Products _ n ts => Forall (fun t => length t = n) ts /\ d o <> 0
  | _ => True
  end.

(* Where the relevance r of a node goes that its operands do not receive. *)
Inductive cause := Kept | Bias | Stabiliser | Taylor | Constant.
Definition absorbed (c : cause) (o : operation) (r : R) : R :=
  match c, o with
  | Kept, Input => r
  | Bias, Linear _ _ b => r * b / d o
  | Stabiliser, (Linear _ _ _ | Products _ _ _) => r * push eps (z o) / d o
  | Taylor, Softmax b u a => r * (1 - v u + mean_logit (map v (b ++ u :: a)))
  | Constant, Held _ => r | _, _ => 0
  end.
Definition all_absorbed (f : cause -> R) : R :=
  f Kept + f Bias + f Stabiliser + f Taylor + f Constant.

Lemma eq3_total s n ts q : Forall (fun t => length t = n) ts -> let y := terms s ts in
  let d := INR n * y + push eps y in d <> 0 -> sum (eq3 eps s n ts q) = q * (INR n * y) / d.
Proof.
  intros F y d N. unfold eq3. fold y d. replace (q * (INR n * y) / d)
    with (INR n * s * (q / d) * sum (map product ts)) by (unfold y, terms; field; exact N).
  clearbody d. clear y N. induction F as [|t ts L F IH]; simpl; [ring|].
  rewrite sum_app, IH, sum_const, L. ring.
Qed.

(* Theorem 25: "Of the relevance R of one attention weight, Eq. 5 absorbs exactly R (1 - u + ubar), u
   being its logit and ubar the mean of the row's logits under the weights. Operations that are held
   constant absorb all, and activations and LayerNorm by the identity rule nothing."  Also of a bias
   by Eq. 1, of sums of any number of terms and of the stabiliser of n factors; see below. *)
Theorem theorem_25_what_operations_absorb o q : defined o ->
  q = sum (received o q) + all_absorbed (fun c => absorbed c o q).
Proof.
  unfold all_absorbed. destruct o as [|xs w b|s n ts|b u a|x|xs]; simpl; intros N; rewrite ?sum_zeros; try ring.
  - destruct (theorem_6_inputs_bias_and_stabiliser _ _ _ _ q (proj2 N)) as [_ E]. unfold d. simpl. lra.
  - destruct N as [H N]. rewrite eq3_total; [unfold d in *; simpl in *; field; exact N| |exact N].
    clear N. induction H; simpl; constructor; auto; now rewrite map_length.
  - rewrite eq5_total by (rewrite map_length, !app_length; simpl; now rewrite !repeat_length).
    rewrite map_app at 1. simpl map. rewrite zip_app by (now rewrite repeat_length, map_length).
    simpl zip. rewrite !sum_app. simpl sum. rewrite !sum_zip_zeros, !sum_zeros. ring.
Qed.

(* LayerNorm at a deviation s is linear with these weights, for channel x among the others, so that
   its mean absorbs nothing. *)
Definition norm_weights (before after : nat) (w s : R) : list R :=
  let m := - (w / s / INR (before + S after)) in repeat m before ++ (w / s + m) :: repeat m after.

Theorem theorem_25_layer_norm_is_linear before x after w s b : let xs := before ++ x :: after in
  s <> 0 -> linear xs (norm_weights (length before) (length after) w s) b =
    w * (x - sum xs / INR (length xs)) / s + b.
Proof.
  intros xs S0. unfold linear, norm_weights, xs. rewrite zip_app by (now rewrite repeat_length).
  simpl zip. rewrite app_length, !sum_app. simpl length. simpl sum. rewrite !sum_zip_repeat.
  field. split; [apply not_0_INR; lia|exact S0].
Qed.

(* On every finite graph, whatever its order, and however often a node is used: where relevances
   obey R_i = start_i + sum of the messages to i, all that started is kept or absorbed. *)
Variables (op : node -> operation) (nodes : list node) (start rel : node -> R).

Definition message (j i : node) : R :=
  sum (map (fun m => if eq_dec (fst m) i then snd m else 0)
    (combine (operands (op j)) (received (op j) (rel j)))).
Definition total (f : node -> R) : R := sum (map f nodes).
Definition propagated : Prop := NoDup nodes /\
  (forall i j, In j nodes -> In i (operands (op j)) -> In i nodes) /\
  (forall i, In i nodes -> rel i = start i + total (fun j => message j i)).

Lemma sum_swap {A B} (f : A -> B -> R) l k :
  sum (map (fun i => sum (map (f i) k)) l) = sum (map (fun j => sum (map (fun i => f i j) l)) k).
Proof. induction l; simpl; [symmetry; apply sum_zero|]. rewrite IHl. symmetry. apply sum_plus. Qed.
Lemma sum_ext {A} (f g : A -> R) l : (forall x, In x l -> f x = g x) -> sum (map f l) = sum (map g l).
Proof. intros H. f_equal. now apply map_ext_in. Qed.
Lemma no_sum {A} (f : A -> R) l : (forall x, In x l -> f x = 0) -> sum (map f l) = 0.
Proof. intros H. rewrite (sum_ext f (fun _ => 0) l H). apply sum_zero. Qed.
Lemma received_once k a l : NoDup l -> In k l ->
  sum (map (fun i => if eq_dec k i then a else 0) l) = a.
Proof.
  induction 1 as [|i l N D IH]; simpl; intros H; [easy|]. destruct (eq_dec k i) as [E|E].
  - rewrite no_sum; [ring|]. intros j J. destruct (eq_dec k j); congruence.
  - rewrite IH; [ring|]. destruct H; congruence.
Qed.

Lemma all_received j : NoDup nodes -> (forall i, In i (operands (op j)) -> In i nodes) ->
  defined (op j) -> total (message j) = sum (received (op j) (rel j)).
Proof.
  intros D C H. assert (L : length (operands (op j)) = length (received (op j) (rel j))).
  { destruct (op j) as [|xs w b|s n ts|b u a|x|xs]; simpl in *; rewrite ?repeat_length; auto.
    - unfold eq1. rewrite map_length, zip_length, map_length. lia.
    - unfold eq3. generalize (terms s (map (map v) ts)). clear. intros y.
      induction ts; simpl; rewrite ?app_length, ?map_length; congruence.
    - rewrite eq5_length; rewrite map_length; [auto|].
      rewrite !app_length. simpl. now rewrite !repeat_length. }
  unfold total, message. rewrite sum_swap. revert C L. generalize (received (op j) (rel j)).
  induction (operands (op j)) as [|i is IH]; destruct l; simpl; intros C L; try discriminate; auto.
  rewrite IH, received_once; auto.
Qed.

Lemma kept_or_absorbed : propagated -> (forall j, In j nodes -> defined (op j)) ->
  total start = all_absorbed (fun c => total (fun j => absorbed c (op j) (rel j))).
Proof.
  intros [D [C P]] H. apply (Rplus_eq_reg_r (total (fun j => sum (received (op j) (rel j))))).
  transitivity (total rel); unfold total, all_absorbed.
  - rewrite (sum_ext rel _ nodes P), sum_plus. unfold total at 1. rewrite sum_swap. f_equal.
    apply sum_ext. intros j J. symmetry. apply all_received; [exact D|eauto|now apply H].
  - rewrite (sum_ext rel (fun j => sum (received (op j) (rel j)) +
      all_absorbed (fun c => absorbed c (op j) (rel j)))); unfold all_absorbed.
    + rewrite !sum_plus. ring.
    + intros j J. now apply theorem_25_what_operations_absorb, H.
Qed.
End Graph.
